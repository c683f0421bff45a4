"""The steps of a code episode on pages: tool, arguments, observation, and the sandbox in which a command ran."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.db.models.functions import Left, Length

from simulation.models import CodeStep, SandboxRun
from simulation.replication.tools import TOOLS
from simulation.web.calls import CallGroup, VisibleText
from simulation.web.replication.text_previews import count_shown_bytes, preview_text, show_whole_text

STEPS_PER_PAGE = 20
# Bytes of a step on the page, of all its arguments together; the rest is loaded on demand.
_ARGUMENTS_SHOWN, _OBSERVATION_SHOWN, _NOTE_SHOWN = 1000, 1200, 600
_TAG_BYTES = 200  # around an argument
_TONES = {"refused": "danger", "unreadable": "danger", "stopped": "warn"}


class CodeStepView(NamedTuple):
    """One step for a page. `is_terminal`: its observation is the output of a command. `has_more`: a text is cut."""

    number: int
    tool: str
    result: str
    outcome: str
    tone: str
    note: VisibleText | None
    arguments: Sequence[tuple[str, VisibleText]]
    observation: VisibleText
    is_terminal: bool
    has_more: bool
    has_changed: bool
    sandbox: SandboxRun | None
    calls: CallGroup | None


def steps_for_page(rows: QuerySet[CodeStep]) -> QuerySet[CodeStep]:
    """Return steps with the beginning of their observations, which may be 64 KiB each."""
    return rows.defer("observation").annotate(
        shown=Left("observation", _OBSERVATION_SHOWN), length=Length("observation")
    )


def build_step(step: Any, sandbox: SandboxRun | None = None, calls: CallGroup | None = None) -> CodeStepView:
    """Return the view of a step of `steps_for_page`, with the beginnings of its texts."""
    arguments, left = list[tuple[str, VisibleText]](), _ARGUMENTS_SHOWN
    written = _list_arguments(step)
    for name, text in written:
        if left <= 0:
            break
        arguments.append((name, preview_text(text, left)))
        left -= count_shown_bytes(arguments[-1][1]) + _TAG_BYTES
    note = (step.request or {}).get("note", "")
    observation = preview_text(step.shown, _OBSERVATION_SHOWN, step.length)
    shown_note = preview_text(note, _NOTE_SHOWN) if note else None
    texts = [observation, *(text for _, text in arguments), *([shown_note] if shown_note else [])]
    has_more = len(arguments) < len(written) or any(text.is_truncated for text in texts)
    return _build_view(step, shown_note, arguments, observation, has_more, sandbox, calls)


def build_whole_step(step: CodeStep, sandbox: SandboxRun | None = None) -> CodeStepView:
    """Return the view of a step with its whole texts."""
    note = (step.request or {}).get("note", "")
    arguments = [(name, show_whole_text(text)) for name, text in _list_arguments(step)]
    shown_note = show_whole_text(note) if note else None
    return _build_view(step, shown_note, arguments, show_whole_text(step.observation), False, sandbox, None)


def _list_arguments(step: CodeStep) -> list[tuple[str, str]]:
    arguments: Mapping[str, Any] = (step.request or {}).get("arguments", {})
    return [(name, str(text)) for name, text in arguments.items() if text != ""]


def _build_view(
    step: CodeStep,
    note: VisibleText | None,
    arguments: Sequence[tuple[str, VisibleText]],
    observation: VisibleText,
    has_more: bool,
    sandbox: SandboxRun | None,
    calls: CallGroup | None,
) -> CodeStepView:
    tool = TOOLS.get(step.tool)
    return CodeStepView(
        number=step.number,
        tool=step.tool or "unreadable reply",
        result=step.outcome,
        outcome=step.get_outcome_display(),
        tone=_TONES.get(step.outcome, ""),
        note=note,
        arguments=arguments,
        observation=observation,
        is_terminal=tool is not None and tool.kind == "sandbox",
        has_more=has_more,
        has_changed=step.tree_before_id != step.tree_after_id,
        sandbox=sandbox,
        calls=calls,
    )
