"""The site as gunicorn serves it, with a pause where a kill is to hit, and with a guard taken away: for controls.

`gunicorn soaking.careless:dawdling` keeps every promise; the other two do not, and a test that does not see it proves nothing.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import connection, transaction

from ratings.rating import answering
from wetbench_site.wsgi import application

PAUSE = 0.4  # seconds, of which a rater spends more than half of their time in one
Start = Callable[..., Any]


def dawdling(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Commits, and takes its time until it says so."""
    answer: Iterable[bytes] = application(environ, start)
    if _is_answer(environ):
        time.sleep(PAUSE)
    return answer


def forgetful(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Does not know a form by its id."""
    answering._settled = lambda *args: None
    return dawdling(environ, start)


def hasty(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Says so, takes its time, and commits."""
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
    """An answer after whose last byte the commit comes: servers close it then."""

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
    where = environ["PATH_INFO"]
    return environ["REQUEST_METHOD"] == "POST" and where.startswith("/rate/") and not where.startswith("/rate/study/")
