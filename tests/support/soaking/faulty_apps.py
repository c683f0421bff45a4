"""The site as gunicorn serves it, with a pause where a kill is to hit, and with a safeguard removed: for control tests.

`gunicorn tests.support.soaking.faulty_apps:respond_late` keeps every promise. The other two do not, and a test that does not detect that proves nothing.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import connection, transaction

from ratings.rating import submit
from wetbench_site.wsgi import application

PAUSE = 0.4  # seconds; raters then spend more than half of their time in a pause
StartResponse = Callable[..., Any]


def respond_late(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
    """Commit, and pause before the response."""
    response: Iterable[bytes] = application(environ, start)
    if _is_rating_post(environ):
        time.sleep(PAUSE)
    return response


def ignore_submission_ids(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
    """Do not recognise a form that was sent before."""
    submit._find_stored_result = lambda *args: None
    return respond_late(environ, start)


def commit_late(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
    """Respond, pause, and then commit."""
    submit.submit_rating = _rate_and_roll_back
    _undone.calls = []
    return _LateCommit(application(environ, start), _undone.calls)


_rate, _undone = submit.submit_rating, threading.local()


def _rate_and_roll_back(*args: Any, **named: Any) -> submit.SubmissionResult:
    _undone.calls.append((args, named))
    with transaction.atomic():
        result = _rate(*args, **named)
        transaction.set_rollback(True)
    return result


class _LateCommit:
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


def _is_rating_post(environ: dict[str, Any]) -> bool:
    path = environ["PATH_INFO"]
    return environ["REQUEST_METHOD"] == "POST" and path.startswith("/rate/") and not path.startswith("/rate/study/")
