"""The turns of the threads that answer requests."""

import threading

import pytest

from wetbench_site import request_threads
from wetbench_site.request_threads import take_turn


def test_requests_of_two_threads_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_threads, "MAX_WAIT_SECONDS", 30)
    order: list[str] = []
    second = threading.Thread(target=lambda: _record_turn(order, "second"))
    with take_turn():
        second.start()
        second.join(0.2)  # it waits
        order.append("first")
    second.join(30)
    assert order == ["first", "second"]


def test_request_that_takes_long_does_not_stop_the_others() -> None:
    order: list[str] = []
    others = [threading.Thread(target=lambda: _record_turn(order, "other")) for _ in range(3)]
    with take_turn():
        for other in others:
            other.start()
        for other in others:
            other.join(30)
        order.append("long one")
    assert order == ["other"] * 3 + ["long one"]


def test_turn_is_given_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), take_turn():
        _ = 1 / 0
    assert not request_threads._turn.locked()


def _record_turn(order: list[str], name: str) -> None:
    with take_turn():
        order.append(name)
