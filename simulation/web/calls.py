"""Pages of model calls, with the bytes sent and received. Staff only."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render

from simulation.calls import call_log, call_texts
from simulation.models import ModelCall, Run
from simulation.web import access
from simulation.web.access import StaffRequest, staff_page

# Controls but newline and tab, odd spaces, zero-width and bidirectional marks, fillers, variation selectors, tags,
# surrogates, private use, byte order mark and noncharacters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u115f\u1160\u1680"
    "\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ue000-\uf8ff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
# Runs of the same hidden character become one mark with a number: a model may write thousands.
_RUN = re.compile(f"({_HIDDEN.pattern})\\1*")
MAX_SHOWN, MAX_SHOWN_ALL = 6_000, 200_000  # characters of one text on a page, and with ?all=1
PER_PAGE = 50
INPUTS = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h")
_TONES = {"started": "info", "answered": "", "refused": "warn", "failed": "danger", "lost": "danger", "fenced": "warn"}
_SHORT_STATES = {"lost": "lost", "fenced": "too late"}
# Texts of calls can be megabytes; a list shows none of them.
_LONG_FIELDS = ("request", "reply", "reply_headers", "effective_params", "dropped_params", "price", "error")


class TextPiece(NamedTuple):
    """A run of plain text, or the name of a hidden character with its number of repetitions."""

    text: str
    mark: bool = False


class VisibleText(NamedTuple):
    """The beginning of a text, and the length of the full text."""

    pieces: list[TextPiece]
    shown: int
    length: int

    @property
    def is_truncated(self) -> bool:
        return self.shown < self.length


def make_visible(text: str, limit: int = MAX_SHOWN) -> VisibleText:
    """Return the first `limit` characters in pieces that are safe to encode and to read."""
    # Cut before the pattern runs, so that the time depends on the length of the shown text only.
    begin, pieces, offset = text[:limit], [], 0
    for match in _RUN.finditer(begin):
        if match.start() > offset:
            pieces.append(TextPiece(begin[offset : match.start()]))
        times = match.end() - match.start()
        pieces.append(TextPiece(f"U+{ord(match[1]):04X}" + (f" ×{times}" if times > 1 else ""), mark=True))
        offset = match.end()
    if offset < len(begin):
        pieces.append(TextPiece(begin[offset:]))
    return VisibleText(pieces, len(begin), len(text))


def decode_bytes(body: bytes) -> str:
    r"""Return bytes as text; invalid UTF-8 as \\xNN."""
    # Escapes instead of replacement characters: the bytes may be the reason of the failure.
    return body.decode("utf-8", "backslashreplace")


class CallRow(NamedTuple):
    """A call in a list. Tokens and cost are None if not reported."""

    call: ModelCall
    what: str
    which: str
    state: str
    tone: str
    tokens_in: int | None
    tokens_out: int | None
    cost: Decimal | None
    seconds: float | None


class CallGroup(NamedTuple):
    """Calls that belong together: their totals, and how many have an unknown cost."""

    lines: Sequence[CallRow]
    tokens: int
    cost: Decimal
    unknown: int


def defer_texts(rows: QuerySet[ModelCall]) -> QuerySet[ModelCall]:
    """Return the rows without their text columns."""
    return rows.defer(*_LONG_FIELDS)


def make_call_row(row: ModelCall) -> CallRow:
    """Return the row of a call, without a query."""
    inputs = [count for name in INPUTS if (count := getattr(row, name)) is not None]
    turn, attempt = [f"turn {row.turn + 1}"] if row.turn else [], [f"attempt {row.attempt}"] if row.attempt > 1 else []
    return CallRow(
        call=row,
        what=f"{row.get_role_display()}: {row.purpose}",
        which=", ".join(turn + attempt),
        state=_SHORT_STATES.get(row.state, row.get_state_display()),
        tone=_TONES[row.state],
        # None instead of zero: a call without usage is not free.
        tokens_in=sum(inputs) if inputs else None,
        tokens_out=row.output,
        cost=row.cost,
        seconds=None if row.milliseconds is None else row.milliseconds / 1000,
    )


def group_calls(rows: Iterable[ModelCall]) -> CallGroup:
    lines = [make_call_row(row) for row in rows]
    return CallGroup(
        lines,
        sum((line.tokens_in or 0) + (line.tokens_out or 0) for line in lines),
        sum((line.cost for line in lines if line.cost is not None), Decimal(0)),
        # Calls in progress have no cost yet, so they are not unknown.
        sum(1 for line in lines if line.cost is None and line.call.state != "started"),
    )


def group_by_step(rows: Iterable[ModelCall]) -> dict[int, CallGroup]:
    """Return the calls of agent and transition model by step number."""
    by_number: dict[int, list[ModelCall]] = defaultdict(list)
    for row in rows:
        if row.role in ("agent", "transition"):
            by_number[row.number].append(row)
    return {number: group_calls(calls) for number, calls in sorted(by_number.items())}


@staff_page
def show_call(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show one HTTP attempt. `?all=1` raises the text limit to 200,000 characters; a sealed job shows no texts."""
    row = _get_call(code)
    open_jobs = access.find_linkable_jobs(request.user, [row.job] if row.job else [])
    about: dict[str, Any] = {"call": row, "line": make_call_row(row), "job": row.job, "open_jobs": open_jobs}
    # Before anything is read: the replies of a sealed job would reveal ratings.
    if access.is_sealed(row.job):
        return render(request, "simulation/call.html", {**about, "sealed": True})
    (body,) = call_log.restore_texts([row.request])
    # Two limits: a page of megabytes would block the browser.
    limit = MAX_SHOWN_ALL if request.GET.get("all") == "1" else MAX_SHOWN
    # The stored bytes may be an error page or half a reply; the raw text on the page shows them.
    answer, reply = call_texts.read_answer(row), decode_bytes(bytes(row.reply or b""))
    # Every turn and attempt of the unit to which the call belongs.
    unit = ("episode_id", "twin_id", "job_id", "code_episode_id", "number", "role", "speaker")
    others = ModelCall.objects.filter(**{name: getattr(row, name) for name in unit}).order_by("turn", "attempt")
    context = about | {
        "twin": row.twin,
        "episode": row.twin.transition.episode if row.twin else row.episode,
        "code_episode": row.code_episode,
        "others": [make_call_row(other) for other in defer_texts(others)],
        "conversation": [{"by": by, "text": make_visible(text, limit)} for by, text in call_texts.read_messages(body)],
        "answer": make_visible(answer, limit) if answer else None,
        "request_text": make_visible(json.dumps(body, indent=2, ensure_ascii=False), limit),
        "reply_text": make_visible(reply, limit) if reply else None,
        "error": make_visible(row.error, limit) if row.error else None,
        "reply_bytes": len(row.reply or b""),
        "whole": limit == MAX_SHOWN_ALL,
    }
    return render(request, "simulation/call.html", context)


@staff_page
def download_request(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the complete body as sent, as a file."""
    row = _get_unsealed_call(code)
    (body,) = call_log.restore_texts([row.request])
    return _file_response(json.dumps(body, indent=2).encode(), f"request-{row.code}.json")


@staff_page
def download_reply(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the received bytes as a file that no browser opens by itself."""
    row = _get_unsealed_call(code)
    # A type that no browser opens: the bytes come from outside and could be HTML.
    return _file_response(bytes(row.reply or b""), f"reply-{row.code}.bin")


@staff_page
def list_run_calls(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the call log of a run, newest first, or only calls in one state."""
    run, states = get_object_or_404(Run, code=code), [state for state, _ in ModelCall.STATES]
    # An unknown state is ignored, so an old link still shows the list.
    chosen = {"state": state} if (state := request.GET.get("state", "")) in states else {}
    rows = defer_texts(run.calls.filter(**chosen).order_by("-pk"))
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "lines": [make_call_row(row) for row in page], "state": chosen.get("state", "")}
    return render(request, "simulation/run_calls.html", {"run": run, "states": states, **context})


def _get_call(code: UUID) -> ModelCall:
    rows = ModelCall.objects.select_related(
        "run", "job", "twin__transition__episode__experiment", "episode__experiment", "code_episode__mask__task"
    )
    # The columns of the episode are large, and the page of one call shows none of them.
    long_fields, places = ("initial", "memory", "experiment__data"), ("episode__", "twin__transition__episode__")
    hidden = [f"{place}{name}" for place in places for name in long_fields]
    hidden += [f"code_episode__{name}" for name in ("pending", "memory", "reported")]
    hidden += ["code_episode__mask__task__data", "code_episode__mask__validation"]
    rows = rows.defer("run__setup", "job__result", "twin__outcome", "twin__transition__step", *hidden)
    return get_object_or_404(rows, code=code)


def _get_unsealed_call(code: UUID) -> ModelCall:
    if access.is_sealed((row := _get_call(code)).job):
        raise Http404
    return row


def _file_response(body: bytes, name: str) -> HttpResponse:
    # Without this header, a browser may guess a type and run the content.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(body, content_type="application/octet-stream", headers=headers)
