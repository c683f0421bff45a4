"""Faults in the body of a reply whose status line and headers are valid."""

import gzip
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from simulation.scripted_server.questions import Question
from tests.support.model_server import http_errors
from tests.support.model_server.answer_faults import NOT_UTF8
from tests.support.model_server.messages import Reply, make_json_reply

if TYPE_CHECKING:
    from tests.support.model_server.rules import Rule

BOMB = 16 * 1024 * 1024  # bytes after decompression
_PAGE = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
_NO_UTF8 = b"\xff\xfe\xc3("


def _as_html(reply: Reply, question: Question, rule: "Rule") -> Reply:
    """Return a gateway's HTML error page, with status 200 unless the rule sets another."""
    # Status 200 by default: a client that checks the status alone must not accept the page.
    return Reply(rule.status or 200, _PAGE, {"content-type": "text/html; charset=utf-8"})


def _error_in_200(reply: Reply, question: Question, rule: "Rule") -> Reply:
    """Return an error object with HTTP status 200. The error in it has the rule's `status`, by default 529."""
    # The HTTP status alone is not enough to detect this error.
    status = rule.status or 529
    kind = "rate_limit_error" if status == 429 else "overloaded_error"
    return make_json_reply(200, http_errors.build_envelope(question.flavour, status, kind, "Provider returned error"))


def _no_choices(reply: Reply, question: Question, rule: "Rule") -> Reply:
    """Return a valid JSON envelope without an answer: its list of choices is empty."""
    return make_json_reply(200, {"object": "chat.completion", "choices": []})


def _truncate_json(reply: Reply, question: Question, rule: "Rule") -> Reply:
    """Return the first half of the envelope, with a Content-Length that matches this half."""
    # The length matches, so only a JSON parser detects the fault.
    return reply._replace(body=reply.body[: len(reply.body) // 2])


def _bad_utf8(reply: Reply, question: Question, rule: "Rule") -> Reply:
    # The placeholder survives the JSON encoder; bytes that are not UTF-8 would not.
    return reply._replace(body=reply.body.replace(NOT_UTF8.encode(), _NO_UTF8))


def _gzip_bomb(reply: Reply, question: Question, rule: "Rule") -> Reply:
    """Return the answer followed by many spaces (by default 16 MiB), compressed to about 1/230 of the size."""
    # The lowest level is quick, and a run of spaces compresses well at any level.
    packed = gzip.compress(reply.body + b" " * (rule.size or BOMB), compresslevel=1)
    return Reply(reply.status, packed, {**reply.headers, "content-encoding": "gzip"})


BODIES: Mapping[str, Callable[[Reply, Question, "Rule"], Reply]] = {
    "html": _as_html,
    "error_in_200": _error_in_200,
    "no_choices": _no_choices,
    "cut_json": _truncate_json,
    "bad_utf8": _bad_utf8,
    "gzip_bomb": _gzip_bomb,
}
