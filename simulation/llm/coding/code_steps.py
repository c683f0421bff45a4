"""The steps of a code episode as prompts show them: in full, in one line, and with what a tool returned between marks."""

from collections.abc import Sequence
from dataclasses import replace

from simulation.llm import histories
from simulation.llm.coding.notes import MAX_HISTORY_BYTES
from simulation.llm.conversation import clean_text
from simulation.llm.histories import GrowingText, History, count_left_out
from simulation.llm.prompt_data import delimit_text
from simulation.replication.tools import TOOLS
from simulation.replication.values import CodeStepRecord, ToolCall
from simulation.replication.wire import format_call

_SHARE_KEPT = 0.75  # of the limit, when old steps are shortened, so that the prompts of several steps begin alike
_MAX_BRIEF = 100  # characters of an argument or a first line in a step of one line


def render_code_history(
    history: History, steps: Sequence[CodeStepRecord], summary: str = "", most: int = MAX_HISTORY_BYTES
) -> GrowingText:
    """Return the history as the agent reads it. Steps in full have at most `most` UTF-8 bytes; older ones take one line each."""
    return histories.render_history(history, steps, lambda shown: render_steps(shown, most), render_brief, summary)


def render_steps(steps: Sequence[CodeStepRecord], most: int = MAX_HISTORY_BYTES) -> list[str]:
    """Return one text for each step. The oldest are in one line, so that the others have at most `most` UTF-8 bytes."""
    texts = [_render_step(step) for step in steps]
    n_brief = count_left_out([len(text.encode()) for text in texts], most, int(most * _SHARE_KEPT))
    return [*map(render_brief, steps[:n_brief]), *texts[n_brief:]]


def render_brief(step: CodeStepRecord) -> str:
    """Return a step in one line: the tool with its short arguments, and how it ended."""
    call = step.call
    if call is None:
        return f"Step {step.number}: the reply could not be read"
    size = f"{len(step.observation):,} characters returned"
    if step.refused:
        size = "refused"
    elif call.tool in TOOLS and TOOLS[call.tool].kind == "sandbox":
        # The first line of a command states how it ended.
        size = _shorten(step.observation.partition("\n")[0])
    return f"Step {step.number}: {' '.join([call.tool, *_list_short_arguments(call)])}: {size}"


def _render_step(step: CodeStepRecord) -> str:
    """Return a step in full: the agent's note before it, the tool as it was written, and what came back."""
    lines = [f"STEP {step.number}"]
    if step.call is None:
        lines.append("Your reply could not be read.")
    else:
        if note := " ".join(step.call.note.split()):
            lines.append(f"(your note: {note})")
        lines.append(clean_text(format_call(replace(step.call, note=""))))
    return "\n".join([*lines, delimit_text("OUTPUT", step.observation)])


def _list_short_arguments(call: ToolCall) -> list[str]:
    blocks = (
        {argument.name for argument in TOOLS[call.tool].arguments if argument.is_block} if call.tool in TOOLS else ()
    )
    return [_shorten(value) for name, value in call.arguments.items() if name not in blocks and value]


def _shorten(text: str) -> str:
    line = " ".join(clean_text(text[: 4 * _MAX_BRIEF]).split())
    return line if len(line) <= _MAX_BRIEF else f"{line[: _MAX_BRIEF - 1]}…"
