"""The way to a Redis that may go away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from transforms.redis_link import RETRY_SECONDS, RedisLink, Unreachable, check_redis_url, redis_link, shown_redis


@pytest.fixture
def link(redis_server: Any) -> Iterator[Callable[..., RedisLink]]:
    made = []

    def make(url: str = redis_server.url, **more: Any) -> RedisLink:
        made.append(RedisLink(url, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://cache",
        "redis://cache:6379/0",
        "rediss://user:${NAME}@cache.example:6380/1?ssl_ca_certs=ca.pem",
        "redis://:${NAME}@[::1]:6379",
    ],
)
def test_urls_that_are_taken(url: str) -> None:
    check_redis_url(url)


@pytest.mark.parametrize("url", ["cache:6379", "http://cache", "redis://", "redis://cache:six/0", "redis://a b", ""])
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="must be redis://"):
        check_redis_url(url)


def test_a_password_as_a_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="must not hold a password"):
        check_redis_url("redis://cache:6379/0?password=abc")


def test_what_is_shown_has_no_secret() -> None:
    assert shown_redis("rediss://user:secret@cache:6379/0?a=b") == "rediss://cache:6379/0"


def test_a_password_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_WORD", raising=False)
    with pytest.raises(ValueError, match="NO_SUCH_WORD is not set"):
        RedisLink("redis://:${NO_SUCH_WORD}@127.0.0.1:1/0")


@pytest.mark.parametrize("password", ["abc-def", "a/b@c:d#e?f${HOME}"])
def test_a_password_may_be_of_any_characters(
    redis_server: Any, link: Callable[..., RedisLink], monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    redis_server.kill()
    redis_server.password = password
    redis_server.start()
    monkeypatch.setenv("THE_WORD", password)
    link(redis_server.url.replace("://", "://:${THE_WORD}@")).ping()
    with pytest.raises(Unreachable, match="Authentication required"):
        link().ping()


def test_one_that_is_gone_is_asked_again_after_a_while(
    redis_server: Any, link: Callable[..., RedisLink], caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    found = link(clock=lambda: now[0])
    run = found.script("return tonumber(ARGV[1]) + 1")
    assert run([], [1]) == 2
    with redis_server.away(), caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.raises(Unreachable):
                run([], [1])
    assert not found.ready
    with pytest.raises(Unreachable, match="a moment ago"):  # it is there again, but nobody looks yet
        run([], [1])
    now[0] += RETRY_SECONDS
    assert found.ready
    assert run([], [1]) == 2  # also the script, which it has forgotten
    assert found.ready
    assert len(caplog.records) == 1
    assert "limits.shared: redis://127.0.0.1:" in caplog.text


def test_a_server_that_refuses_is_as_one_that_is_gone(link: Callable[..., RedisLink]) -> None:
    found = link()
    with pytest.raises(Unreachable):
        found.script("return redis.call('NOSUCH')")([], [])
    assert not found.ready


def test_a_server_that_hangs_is_as_one_that_is_gone(redis_server: Any, link: Callable[..., RedisLink]) -> None:
    found = link()
    found.ping()
    redis_server.process.send_signal(19)  # SIGSTOP
    try:
        with pytest.raises(Unreachable):
            found.ping()
    finally:
        redis_server.process.send_signal(18)  # SIGCONT
    assert not found.ready


def test_a_process_has_one_link() -> None:
    assert redis_link("redis://127.0.0.1:1/0") is redis_link("redis://127.0.0.1:1/0")
