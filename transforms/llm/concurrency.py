"""How many calls may be under way at once at one endpoint."""

from __future__ import annotations


class Concurrency:
    """Additive increase, multiplicative decrease (Chiu and Jain 1989; RFC 5681, section 3.1): halved when the
    endpoint refuses for load, one more per round trip that it answers, between 1 and `most`.

    A refusal of a call that started before the last cut is the same news again and changes nothing. Calls are
    known by the numbers that `start` gives. Not for several threads at once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = float(most)
        self.in_flight = 0
        self.started = 0  # in all
        self._cut_after = 0  # the last call that had started when the limit was cut

    @property
    def full(self) -> bool:
        """Whether the next call has to wait for another one's end."""
        return self.in_flight + 1 > self.limit

    @property
    def load(self) -> float:
        """The share of the limit that is in use."""
        return self.in_flight / self.limit

    def start(self) -> int:
        """Counts a call in; its number."""
        self.in_flight += 1
        self.started += 1
        return self.started

    def hold(self) -> None:
        """Keeps a place free for a call that may not start yet."""
        self.in_flight += 1

    def let_go(self) -> None:
        """Gives the place back: the call starts now, or does not."""
        self.in_flight -= 1

    def end(self) -> None:
        """Counts a call out."""
        self.in_flight -= 1

    def grow(self, number: int) -> None:
        """That call was answered."""
        if self.limit < self.most and number > self._cut_after:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)

    def cut(self, number: int) -> bool:
        """That call, still counted in, was refused. True if this is news."""
        if number <= self._cut_after:
            return False
        # Of what is under way, not of a limit that nothing has come near to.
        self.limit = max(1.0, min(self.limit, self.in_flight) / 2)
        self._cut_after = self.started
        return True

    def restart(self) -> None:
        """Begins with one call again, whatever is still under way."""
        self.limit = 1.0
        self._cut_after = self.started
