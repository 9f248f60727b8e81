"""What of a budget is spent, and what is set aside for calls under way, where all worker processes keep count together
over Redis, and what holds while that is gone.

Each call asks before it is made, and tells what it has cost (ledger.lua). What a process has set aside lapses some time
after it died. A ledger that Redis has lost is opened again, by what the run's journal says is spent: it has another
generation, by which each process knows which of its costs are in it already.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from transforms.ledger import LocalLedger, Room
from transforms.redis_link import RedisLink, Unreachable

NANO = 1_000_000_000  # in a dollar
_SAVED_SECONDS = 15.0  # after a call has ended its cost is in the journal: rather counted twice than not
_OPENINGS = 5  # of a ledger that goes while it is being opened

_OPEN = """
if redis.call('HSETNX', KEYS[1], 'generation', ARGV[1]) == 1 then
  local time = redis.call('TIME')
  local now = tonumber(ARGV[2]) or time[1] + time[2] / 1e6
  redis.call('HSET', KEYS[1], 'spent', ARGV[3], 'opened', string.format('%.17g', now - ARGV[4]))
end
"""
_RENEW = """
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'XX', string.format('%.17g', time[1] + time[2] / 1e6 + ARGV[2]), ARGV[1])
"""


class SharedLedger:
    """See Ledger. `key` is the run's, `process` nobody else's. `spent_usd` says what earlier runs and the journal of
    this one, of all its workers, have cost. What a process set aside lapses `lapse_seconds` after it was last heard of.

    While Redis is gone the process may spend what it has set aside, and of what nobody had spent or set aside its
    part, one of as many as `workers` counts or as there were in Redis. `clock` is monotonic, in seconds; `now` is for
    tests, Redis's own clock else."""

    def __init__(
        self,
        link: RedisLink,
        key: str,
        process: str,
        max_cost_usd: float,
        spent_usd: Callable[[], float],
        *,
        lapse_seconds: float,
        workers: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float | str] = lambda: "",
    ) -> None:
        self._link = link
        self._keys = [f"paidonce:{{{key}}}:{part}" for part in ("ledger", "reserved", "calls", "lapses")]
        self._process = process
        self._max = max_cost_usd
        self._read_spent = spent_usd
        self._lapse = lapse_seconds
        self._workers = workers
        self._clock = clock
        self._now = now
        self._ask = link.script(Path(__file__).with_name("ledger.lua").read_text(encoding="utf-8"))
        self._open_script, self._renew_script = link.script(_OPEN), link.script(_RENEW)
        self._generation = ""
        self._unsent: list[tuple[float, int]] = []  # costs that Redis does not know of, and when they came
        self._reserved = self._under_way = 0  # nano-dollars and calls, of this process
        self._others = 0  # nano-dollars that others had set aside when Redis last answered
        self._spent = 0  # and what was spent
        self._processes = 1  # and how many there were
        self._alone: LocalLedger | None = None  # while Redis is gone
        self._renewing = False
        self._renewal = threading.Lock()

    @property
    def spent_usd(self) -> float:
        """See Ledger."""
        if self._alone is not None:
            return self._alone.spent_usd
        return (self._spent + sum(cost for _at, cost in self._unsent)) / NANO

    @property
    def budget(self) -> str:
        """See Ledger."""
        return (self._alone or LocalLedger(self._max, 0.0)).budget

    def reserve(self, usd: float) -> Room:
        """See Ledger."""
        amount = math.ceil(usd * NANO)
        room = (
            self._reserve_alone(usd) if self._alone is not None and not self._link.ready else self._reserve(usd, amount)
        )
        if room is Room.YES:
            self._reserved += amount
            self._under_way += 1
            self._keep_renewing()
        return room

    def settle(self, usd: float, cost_usd: float) -> None:
        """See Ledger."""
        self._under_way -= 1
        self._reserved = self._reserved - math.ceil(usd * NANO) if self._under_way else 0
        self._unsent.append((self._clock(), round(cost_usd * NANO)))
        if self._alone is not None:
            self._alone.settle(usd, cost_usd)
            return
        with suppress(Unreachable):  # the next call that asks will see
            self._exchange()

    def _reserve(self, usd: float, amount: int) -> Room:
        try:
            granted, others_under_way = self._exchange(amount)
        except Unreachable:
            if self._alone is None:
                self._alone = self._part()
            return self._reserve_alone(usd)
        self._alone = None
        if granted:
            return Room.YES
        return Room.LATER if self._under_way or others_under_way else Room.NEVER

    def _reserve_alone(self, usd: float) -> Room:
        assert self._alone is not None
        return self._alone.reserve(usd)

    def _exchange(self, amount: int | None = None) -> tuple[bool, int]:
        """Tells what this process has spent and set aside, and asks for `amount` nano-dollars more. Returns whether
        they are set aside, and for how many calls others have something set aside. Raises Unreachable."""
        more = ("", "") if amount is None else (self._reserved + amount, self._under_way + 1)
        for _ in range(_OPENINGS):
            cost = sum(cost for _at, cost in self._unsent)
            mine = [self._now(), self._process, self._generation, self._lapse, cost, self._reserved, self._under_way]
            answer = self._ask(self._keys, [*mine, *more, math.floor(self._max * NANO)])
            if len(answer) > 2:
                self._unsent.clear()
                _generation, _age, granted, spent, others, under_way, processes = answer
                self._spent, self._others, self._processes = int(spent), int(float(others)), int(processes)
                return bool(granted), int(under_way)
            self._adopt(*answer)
        raise Unreachable(f"{self._link.shown} keeps losing what it is told")

    def _adopt(self, generation: str, age: str) -> None:
        """Goes on with a ledger that this process has not known, or opens one where there is none."""
        if not generation:
            began = self._clock()
            try:
                spent = math.ceil(self._read_spent() * NANO)
            except OSError as error:
                raise Unreachable(str(error)) from None
            self._open_script(self._keys[:1], [uuid.uuid4().hex, self._now(), spent, self._clock() - began])
            return
        if self._generation:  # what came before that one was opened is in it, by the journal
            since = self._clock() - float(age) - _SAVED_SECONDS
            self._unsent = [(at, cost) for at, cost in self._unsent if at >= since]
        self._generation = generation

    def _part(self) -> LocalLedger:
        """What this process may spend without Redis. What others have set aside is theirs: what nobody has, by the
        journal of all workers, is divided. So all parts together, and what is under way, are no more than there is."""
        spent = self.spent_usd
        with suppress(OSError):
            spent = max(spent, self._read_spent())
        reserved = self._reserved / NANO
        free = max(0.0, self._max - spent - self._others / NANO - reserved)
        most = spent + reserved + free / max(self._processes, self._workers())
        return LocalLedger(self._max, spent, most_usd=most, reserved_usd=reserved, under_way=self._under_way)

    def _keep_renewing(self) -> None:
        """Lets Redis hear of this process also while no call begins or ends for long."""
        with self._renewal:
            if not self._renewing:
                self._renewing = True
                threading.Thread(target=self._renew, name="ledger", daemon=True).start()

    def _renew(self) -> None:
        while True:
            time.sleep(self._lapse / 4)
            with self._renewal:
                if not self._under_way:
                    self._renewing = False
                    return
            with suppress(Unreachable):
                self._renew_script(self._keys[3:], [self._process, self._lapse])
