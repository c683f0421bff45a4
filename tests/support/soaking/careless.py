"""The site as gunicorn serves it, with a pause where a kill is to hit, and with a safeguard removed: for control tests.

`gunicorn tests.support.soaking.careless:dawdling` keeps every promise. The other two do not, and a test that does not detect that proves nothing.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import connection, transaction

from ratings.rating import answering
from wetbench_site.wsgi import application

PAUSE = 0.4  # seconds; raters then spend more than half of their time in a pause
Start = Callable[..., Any]


def dawdling(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Commit, and pause before the response."""
    response: Iterable[bytes] = application(environ, start)
    if _is_answer(environ):
        time.sleep(PAUSE)
    return response


def forgetful(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Do not recognise a form that was sent before."""
    answering._settled = lambda *args: None
    return dawdling(environ, start)


def hasty(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Respond, pause, and then commit."""
    answering.rate = _rolled_back
    _undone.calls = []
    return _Hasty(application(environ, start), _undone.calls)


_rate, _undone = answering.rate, threading.local()


def _rolled_back(*args: Any, **named: Any) -> answering.RateResult:
    _undone.calls.append((args, named))
    with transaction.atomic():
        result = _rate(*args, **named)
        transaction.set_rollback(True)
    return result


class _Hasty:
    """A response that commits after its last byte, when the server closes it."""

    def __init__(self, answer: Any, undone: list[tuple[Any, Any]]) -> None:
        self.answer, self.undone = answer, undone

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.answer)

    def close(self) -> None:
        self.answer.close()
        for args, named in self.undone:
            time.sleep(PAUSE)
            _rate(*args, **named)
            connection.close()


def _is_answer(environ: dict[str, Any]) -> bool:
    path = environ["PATH_INFO"]
    return environ["REQUEST_METHOD"] == "POST" and path.startswith("/rate/") and not path.startswith("/rate/study/")
