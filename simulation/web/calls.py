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

from simulation.calls import text_store
from simulation.models import ModelCall, Run
from simulation.providers import Endpoint, ProviderError, connections
from simulation.providers.base import PROVIDERS, Reply
from simulation.web import access
from simulation.web.access import StaffRequest, staff_only
from simulation.web.call_lines import defer_texts, make_call_row
from simulation.web.escape_invisible import MAX_SHOWN, MAX_SHOWN_ALL, VisibleText, decode_bytes, make_visible

PER_PAGE = 50
_ABOUT = ("run", "job", "twin__transition__episode__experiment", "episode__experiment")
_LONG = ("initial", "memory", "experiment__data")


class ConversationText(NamedTuple):
    """One text of the conversation and its author."""

    by: str
    text: VisibleText


@staff_only
@require_safe
def show_call(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show one HTTP attempt. `?all=1` raises the text limit to 200,000 characters; a sealed job shows no texts."""
    row = _get_call(code)
    about: dict[str, Any] = {
        "job": row.job,
        "open_jobs": access.find_linkable_jobs(request.user, [row.job] if row.job else []),
    }
    # Before anything is read: the replies of a sealed job would reveal ratings.
    if access.is_sealed(row.job):
        context = {"call": row, "line": make_call_row(row), "sealed": True, **about}
        return render(request, "simulation/call.html", context)
    # Long texts of requests are stored apart and are put back here.
    (body,) = text_store.restore_texts([row.request])
    # Two limits: a page of megabytes would block the browser.
    limit = MAX_SHOWN_ALL if request.GET.get("all") == "1" else MAX_SHOWN
    answer, reply = _parse_answer(row), decode_bytes(bytes(row.reply or b""))
    context = {
        "call": row,
        "line": make_call_row(row),
        "twin": row.twin,
        "episode": row.twin.transition.episode if row.twin else row.episode,
        "others": [make_call_row(other) for other in defer_texts(_calls_of_unit(row))],
        "conversation": [ConversationText(by, make_visible(text, limit)) for by, text in iter_conversation(body)],
        "answer": make_visible(answer, limit) if answer else None,
        "request_text": make_visible(json.dumps(body, indent=2, ensure_ascii=False), limit),
        # Undecodable bytes are shown as escapes, since they may be what failed.
        "reply_text": make_visible(reply, limit) if reply else None,
        "error": make_visible(row.error, limit) if row.error else None,
        "reply_bytes": len(row.reply or b""),
        "whole": limit == MAX_SHOWN_ALL,
        **about,
    }
    return render(request, "simulation/call.html", context)


@staff_only
@require_safe
def download_request(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the complete body as sent, as a file."""
    row = _get_unsealed_call(code)
    (body,) = text_store.restore_texts([row.request])
    return _file_response(json.dumps(body, indent=2).encode(), f"request-{row.code}.json")


@staff_only
@require_safe
def download_reply(request: StaffRequest, code: UUID) -> HttpResponse:
    """Return the received bytes as a file that no browser opens by itself."""
    row = _get_unsealed_call(code)
    # A type that no browser opens: the bytes come from outside and could be HTML.
    return _file_response(bytes(row.reply or b""), f"reply-{row.code}.bin")


@staff_only
@require_safe
def list_run_calls(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the call log of a run, newest first, or only calls in one state."""
    run = get_object_or_404(Run, code=code)
    states = dict(ModelCall.STATES)
    state = request.GET.get("state", "")
    # An unknown state is ignored, so an old link still shows the list.
    chosen = {"state": state} if state in states else {}
    page = Paginator(defer_texts(run.calls.filter(**chosen).order_by("-pk")), PER_PAGE).get_page(
        request.GET.get("page")
    )
    context = {
        "run": run,
        "page": page,
        "lines": [make_call_row(row) for row in page],
        "states": list(states),
        "state": state if chosen else "",
    }
    return render(request, "simulation/run_calls.html", context)


def iter_conversation(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield author and text of each message. Anthropic's system text is beside the messages, OpenAI's among them."""
    # Anthropic sends the system text beside the messages.
    if body.get("system"):
        yield "system", _content_text(body["system"])
    for message in body.get("messages") or ():
        yield str(message.get("role", "")), _content_text(message.get("content"))


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        # Parts of a message are joined with an empty line, so that their borders are visible.
        return "\n\n".join(
            _content_text(part.get("text", part) if isinstance(part, dict) else part) for part in content
        )
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _parse_answer(row: ModelCall) -> str:
    """Return the model's text from the stored bytes; "" if they contain no completion."""
    if row.reply is None or row.provider not in PROVIDERS:
        return ""
    endpoint = Endpoint(row.provider, row.requested_model)
    try:
        return connections.parse_reply(endpoint, Reply(row.http_status or 0, row.reply_headers, bytes(row.reply))).text
    except ProviderError:
        # The stored bytes may be an error page or half a reply; the raw text below shows them.
        return ""


def _get_call(code: UUID) -> ModelCall:
    rows = ModelCall.objects.select_related(*_ABOUT)
    # The columns of the episode are large, and the page of one call shows none of them.
    hidden = [f"{place}{name}" for place in ("episode__", "twin__transition__episode__") for name in _LONG]
    return get_object_or_404(
        rows.defer("run__setup", "job__result", "twin__outcome", "twin__transition__step", *hidden), code=code
    )


def _get_unsealed_call(code: UUID) -> ModelCall:
    if access.is_sealed((row := _get_call(code)).job):
        raise Http404
    return row


def _calls_of_unit(row: ModelCall) -> QuerySet[ModelCall]:
    """Return every turn and attempt of the unit to which the call belongs."""
    thing = {"episode_id": row.episode_id, "twin_id": row.twin_id, "job_id": row.job_id}
    unit = {**thing, "number": row.number, "role": row.role, "speaker": row.speaker}
    return ModelCall.objects.filter(**unit).order_by("turn", "attempt")


def _file_response(body: bytes, name: str) -> HttpResponse:
    # Without this header, a browser may guess a type and run the content.
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(body, content_type="application/octet-stream", headers=headers)
