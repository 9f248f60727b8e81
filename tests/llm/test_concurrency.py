"""How many calls may be under way: halved when refused, one more per round trip when answered."""

from transforms.llm.concurrency import Concurrency


def started(concurrency: Concurrency, count: int) -> list[int]:
    return [concurrency.start() for _ in range(count)]


def test_full_at_the_most() -> None:
    concurrency = Concurrency(3)
    for _ in range(3):
        assert not concurrency.full
        concurrency.start()
    assert concurrency.full
    concurrency.end()
    assert not concurrency.full


def test_a_hundred_refusals_of_one_round_trip_halve_it_once() -> None:
    concurrency = Concurrency(100)
    assert [concurrency.cut(number) for number in started(concurrency, 100)] == [True] + [False] * 99
    assert concurrency.limit == 50
    assert concurrency.cut(concurrency.start())  # of the next round trip
    assert concurrency.limit == 25


def test_it_halves_what_is_under_way_not_what_could_be() -> None:
    concurrency = Concurrency(100)
    concurrency.cut(started(concurrency, 10)[0])
    assert concurrency.limit == 5


def test_one_call_may_always_go() -> None:
    concurrency = Concurrency(100)
    for _ in range(20):
        concurrency.cut(concurrency.start())
        concurrency.end()
    assert concurrency.limit == 1
    assert not concurrency.full


def test_it_grows_by_about_one_a_round_trip_up_to_the_most() -> None:
    concurrency = Concurrency(20)
    concurrency.cut(started(concurrency, 20)[0])
    for _ in range(20):
        concurrency.end()
    for trip in range(1, 16):
        for number in started(concurrency, int(concurrency.limit)):
            concurrency.grow(number)
            concurrency.end()
        assert abs(concurrency.limit - min(20, 10 + trip)) < 1.5
    assert concurrency.limit == 20


def test_answers_to_calls_from_before_the_cut_do_not_make_up_for_it() -> None:
    concurrency = Concurrency(100)
    numbers = started(concurrency, 100)
    concurrency.cut(numbers[0])
    for number in numbers:
        concurrency.grow(number)
    assert concurrency.limit == 50
