"""Pages of model calls, with the bytes sent and received. Staff only."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from simulation.calls import shelf
from simulation.models import ModelCall, Run
from simulation.providers import Endpoint, ProviderError, connections
from simulation.providers.base import PROVIDERS, Reply
from simulation.web import access
from simulation.web.access import StaffRequest, staff_only
from simulation.web.call_lines import call_line, short
from simulation.web.visible import CUT, WHOLE, Visible, decoded, visible

PER_PAGE = 50
_ABOUT = ("run", "job", "twin__transition__episode__experiment", "episode__experiment")
_LONG = ("initial", "memory", "experiment__data")


class Said(NamedTuple):
    """One text of the conversation and its author."""

    by: str
    text: Visible


@staff_only
@require_safe
def call(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show one HTTP attempt. `?all=1` raises the text limit to 200,000 characters; a sealed job shows no texts."""
    row = _found(code)
    about: dict[str, Any] = {"job": row.job, "open_jobs": access.open_jobs(request.user, [row.job] if row.job else [])}
    # Before anything is read: the replies of a sealed job would reveal ratings.
    if access.sealed(row.job):
        context = {"call": row, "line": call_line(row), "sealed": True, **about}
        return render(request, "simulation/call.html", context)
    # Long texts of requests are stored apart and are put back here.
    (body,) = shelf.take([row.request])
    # Two limits: a page of megabytes would block the browser.
    limit = WHOLE if request.GET.get("all") == "1" else CUT
    answer, reply = _answer(row), decoded(bytes(row.reply or b""))
    context = {
        "call": row,
        "line": call_line(row),
        "twin": row.twin,
        "episode": row.twin.transition.episode if row.twin else row.episode,
        "others": [call_line(other) for other in short(_unit(row))],
        "conversation": [Said(by, visible(text, limit)) for by, text in conversation(body)],
        "answer": visible(answer, limit) if answer else None,
        "request_text": visible(json.dumps(body, indent=2, ensure_ascii=False), limit),
        # Undecodable bytes are shown as escapes, since they may be what failed.
        "reply_text": visible(reply, limit) if reply else None,
        "error": visible(row.error, limit) if row.error else None,
        "reply_bytes": len(row.reply or b""),
        "whole": limit == WHOLE,
        **about,
    }
    return render(request, "simulation/call.html", context)


@staff_only
@require_safe
def call_request(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the complete body as sent, as a file."""
    row = _unsealed(code)
    (body,) = shelf.take([row.request])
    return _file(json.dumps(body, indent=2).encode(), f"request-{row.code}.json")


@staff_only
@require_safe
def call_reply(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the received bytes as a file that no browser opens by itself."""
    row = _unsealed(code)
    # A type that no browser opens: the bytes come from outside and could be HTML.
    return _file(bytes(row.reply or b""), f"reply-{row.code}.bin")


@staff_only
@require_safe
def run_calls(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the call log of a run, newest first, or only calls in one state."""
    run = get_object_or_404(Run, code=code)
    states = dict(ModelCall.STATES)
    state = request.GET.get("state", "")
    # An unknown state is ignored, so an old link still shows the list.
    chosen = {"state": state} if state in states else {}
    page = Paginator(short(run.calls.filter(**chosen).order_by("-pk")), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "run": run,
        "page": page,
        "lines": [call_line(row) for row in page],
        "states": list(states),
        "state": state if chosen else "",
    }
    return render(request, "simulation/run_calls.html", context)


def conversation(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield author and text of each message. Anthropic's system text is beside the messages, OpenAI's among them."""
    # Anthropic sends the system text beside the messages.
    if body.get("system"):
        yield "system", _written(body["system"])
    for message in body.get("messages") or ():
        yield str(message.get("role", "")), _written(message.get("content"))


def _written(content: Any) -> str:
    if isinstance(content, list):
        # Parts of a message are joined with an empty line, so that their borders are visible.
        return "\n\n".join(_written(part.get("text", part) if isinstance(part, dict) else part) for part in content)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _answer(row: ModelCall) -> str:
    """Return the model's text from the stored bytes; "" if they contain no completion."""
    if row.reply is None or row.provider not in PROVIDERS:
        return ""
    endpoint = Endpoint(row.provider, row.requested_model)
    try:
        return connections.read(endpoint, Reply(row.http_status or 0, row.reply_headers, bytes(row.reply))).text
    except ProviderError:
        # The stored bytes may be an error page or half a reply; the raw text below shows them.
        return ""


def _found(code: UUID) -> ModelCall:
    rows = ModelCall.objects.select_related(*_ABOUT)
    # The columns of the episode are large, and the page of one call shows none of them.
    hidden = [f"{place}{name}" for place in ("episode__", "twin__transition__episode__") for name in _LONG]
    return get_object_or_404(
        rows.defer("run__setup", "job__result", "twin__outcome", "twin__transition__step", *hidden), code=code
    )


def _unsealed(code: UUID) -> ModelCall:
    if access.sealed((row := _found(code)).job):
        raise Http404
    return row


def _unit(row: ModelCall) -> QuerySet[ModelCall]:
    """Return every turn and attempt of the same question."""
    thing = {"episode_id": row.episode_id, "twin_id": row.twin_id, "job_id": row.job_id}
    unit = {**thing, "number": row.number, "role": row.role, "speaker": row.speaker}
    return ModelCall.objects.filter(**unit).order_by("turn", "attempt")


def _file(body: bytes, name: str) -> HttpResponse:
    # Without this header, a browser may guess a type and run the content.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(body, content_type="application/octet-stream", headers=headers)
