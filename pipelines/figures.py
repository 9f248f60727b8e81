"""What rows to come are expected to take, each figure with what it stands on. Unknown is said, and is never 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import NamedTuple

from pipelines.progress import clock
from transforms.llm.completion import Usage
from transforms.llm.duration import durations
from transforms.llm.price_table import Found
from transforms.llm.prices import cost_usd
from transforms.llm.projection import Observation, Projection, Range, project
from transforms.llm.prompt_size import PromptSize, most_completion_tokens
from transforms.settings import Settings

UNKNOWN = "unknown"
Line = tuple[str, str, str]  # a name, its value and what that stands on


class Bounds(NamedTuple):
    """What is known where there is no expected value: the least and the most, None where there is none."""

    least: float | None
    most: float | None


@dataclass(frozen=True)
class Figures:
    """What `rows` rows will take whose requests are `size` bytes together, by `observed` rows of the same task, which
    `source` names. Without such rows prompts are guessed and answers are not."""

    settings: Settings
    price: Found | None
    observed: Sequence[Observation]
    source: str
    rows: int
    size: int

    def lines(self, spent_usd: float) -> list[Line]:
        """All figures. `spent_usd` is what runs into the same output have cost."""
        return [
            self._requests(),
            _line("prompt tokens", self.prompt_tokens, self._prompt_basis(), _whole),
            self._completion(),
            self._cost(),
            *self._budget(spent_usd),
            self._time(),
            *self._failures(),
        ]

    @cached_property
    def projection(self) -> Projection:
        """By the observed rows alone."""
        return project(self.observed, self.rows, self.size, None if self.price is None else self.price.price)

    @property
    def requests(self) -> Range:
        """HTTP requests, failed attempts included."""
        return self.projection.requests or Range(float(ceil(self.rows / self.settings.task.records_per_call)))

    @property
    def prompt_tokens(self) -> Range:
        """As observed, else guessed from the texts."""
        guess = PromptSize(self.settings.task, self.settings.input, self.settings.model)
        return self.projection.prompt_tokens or Range(guess.guessed_tokens(self.rows, self.size))

    @property
    def most_completion_tokens(self) -> int | None:
        """What the answers can have together at most; None where nothing bounds them."""
        each = most_completion_tokens(self.settings.model)
        return None if each is None else each * self.rows * self._answers_a_row

    @property
    def cost_usd(self) -> Range | Bounds | None:
        """As observed, else what prompts alone cost and the longest answers. None where there is no price."""
        if self.price is None:
            return None
        if self.projection.cost_usd is not None:
            return self.projection.cost_usd
        most = self.most_completion_tokens
        longest = None if most is None else self._usd(self.prompt_tokens.expected * self._answers_a_row, most)
        return Bounds(self._usd(self.prompt_tokens.expected, 0), longest)

    @property
    def _answers_a_row(self) -> int:
        task = self.settings.task
        return 1 + (task.max_reasks if task.on_invalid == "retry" else 0)

    def _usd(self, prompt: float, completion: float) -> float:
        """Of all rows, each with the same share: prices can depend on the length of a prompt."""
        assert self.price is not None
        rows = max(1, self.rows)
        each = cost_usd(Usage(round(prompt / rows), 0), self.price.price) or 0.0
        answers = cost_usd(Usage(0, 1_000_000), self.price.price) or 0.0
        exact = prompt / max(1, round(prompt / rows) * rows)  # what rounding the share has changed
        return each * rows * exact + answers * completion / 1_000_000

    def _requests(self) -> Line:
        known = self.projection.requests is not None
        rows = self.settings.task.records_per_call
        guessed = "one a row" if rows == 1 else f"{rows} rows each"
        return _line("requests", self.requests, self.source if known else guessed, _whole)

    def _prompt_basis(self) -> str:
        if self.projection.prompt_tokens is not None:
            return self.source
        schema = PromptSize(self.settings.task, self.settings.input, self.settings.model).schema_tokens
        billed = f", and {schema} for the schema in each" if schema else ""
        return f"guessed: a token for 4 bytes of text, 3 for each message{billed}"

    def _completion(self) -> Line:
        found, most = self.projection.completion_tokens, self.most_completion_tokens
        if found is not None:
            return _line("completion tokens", found, self.source, _whole)
        why = "no earlier answers to learn from"
        if most is None:
            return "completion tokens", UNKNOWN, f"{why}, no max_tokens in model.parameters"
        return "completion tokens", f"{UNKNOWN}, at most {_whole(most)}", f"{why}; all as long as max_tokens allows"

    def _cost(self) -> Line:
        cost = self.cost_usd
        if cost is None or self.price is None:
            return "cost", UNKNOWN, f"no price is known for {self.settings.model.name or 'this model'}; set model.price"
        price = f"${self.price.price.input:g} in, ${self.price.price.output:g} out per million tokens"
        basis = f"{price} ({self.price.source})"
        if isinstance(cost, Range):
            return _line("cost", cost, basis, usd)
        if cost.most is None:
            return "cost", f"at least {usd(cost.least or 0.0)}", f"prompts alone; {basis}"
        return "cost", f"{usd(cost.least or 0.0)} to {usd(cost.most)}", f"prompts alone, longest answers; {basis}"

    def _budget(self, spent: float) -> list[Line]:
        budget, cost = self.settings.budget.max_cost_usd, self.cost_usd
        if budget is None:
            return []
        left = max(0.0, budget - spent)
        low, likely, high = _three(cost)
        if high is not None and high <= left:
            verdict = "suffices"
        elif low is not None and low > left:
            enough = round(self.rows * left / likely) if likely else 0
            verdict = f"does not suffice: for about {_whole(enough)} of {_whole(self.rows)} rows"
        else:
            verdict = "may not suffice" if low is not None else "whether it suffices is unknown"
        return [("budget left", usd(left), f"of budget.max_cost_usd {usd(budget)}: {verdict}")]

    def _time(self) -> Line:
        found = self.projection
        completion = found.completion_tokens
        spans = []
        for at in range(3):  # expected, low, high
            prompt = self.prompt_tokens[at]
            answers = 0.0 if completion is None else completion[at]
            tokens = None if prompt is None or answers is None else prompt + answers
            latency = None if found.seconds is None else found.seconds[at]
            spans.append(durations(self.settings, self.requests[at], tokens, latency).longest)
        if spans[0] is None:
            return (
                "time of the calls",
                UNKNOWN,
                "no earlier answers to learn the latency from, no limits per minute are set",
            )
        name, seconds = spans[0]
        low, high = (None if span is None else span[1] for span in spans[1:])
        if found.seconds is None:
            return "time of the calls", f"at least {clock(seconds)}", f"by limits.{name}; the latency is unknown"
        whole = Range(seconds, low, high) if low is not None and high is not None else Range(seconds)
        limit = f"limits.{name}" + (f" {self.settings.max_in_flight}" if name == "max_in_flight" else "")
        return _line("time of the calls", whole, f"one worker process, by {limit} and latencies as so far", clock)

    def _failures(self) -> list[Line]:
        found = self.projection.failures
        return [] if found is None or not self.rows else [_line("failures", found, self.source, _percent)]


def table(lines: Sequence[Line]) -> str:
    """Lines in columns, the last one as long as it is."""
    names, values = (max(len(line[at]) for line in lines) for at in (0, 1))
    return "\n".join(f"{name:<{names}}  {value:>{values}}  {basis}".rstrip() for name, value, basis in lines)


def usd(amount: float) -> str:
    """A cost for people: four decimals, and of less than a cent six."""
    return f"${amount:,.4f}" if amount >= 0.01 or amount == 0 else f"${amount:.6f}"


def count(number: int) -> str:
    """A number of rows."""
    return _whole(number)


def _line(name: str, found: Range, basis: str, shown: object) -> Line:
    assert callable(shown)
    if found.low is None or found.high is None:
        return name, shown(found.expected), basis
    between = shown(found.low), shown(found.high)
    spread = f"{between[0]} to {between[1]}; " if between[0] != between[1] else ""
    return name, shown(found.expected), f"{spread}{basis}"


def _three(cost: Range | Bounds | None) -> tuple[float | None, float | None, float | None]:
    """The least, the likely and the most."""
    if cost is None:
        return None, None, None
    if isinstance(cost, Bounds):
        return cost.least, cost.least, cost.most
    low = cost.expected if cost.low is None else cost.low
    return low, cost.expected, cost.expected if cost.high is None else cost.high


def _whole(number: float) -> str:
    return f"{round(number):,}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
