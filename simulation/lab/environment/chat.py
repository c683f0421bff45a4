"""Episodes as chat messages with tool calls and tool results, in OpenAI's format, as trainers of language models read them.

Messages have only what an agent sees: neither the hidden truth nor the ledger, the reasoning of a transition model or the
findings of a classifier.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from simulation.lab import rendering
from simulation.lab.bench import Bench, Step
from simulation.lab.environment.tool_schemas import build_call
from simulation.lab.name_ranges import format_count
from simulation.lab.outcomes import RejectedBy
from simulation.lab.roles import Situation

Message = dict[str, Any]
SYSTEM = (
    "You plan and carry out an experiment in a simulated wet laboratory. Call one tool at a time; each call is one action at "
    "the bench, and its result is what you observe. Write quantities with their units. A rejected action uses up a step, and "
    "three rejections in a row end the experiment. When the record contains all evidence that the goal requires, call "
    "SubmitMaterialsObservationsForReview."
)


def build_opening(situation: Situation) -> list[Message]:
    """Return the first two messages of an episode: the rules, and the goal with the materials on the bench."""
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": rendering.render_situation(situation)},
    ]


def build_turn(bench: Bench, step: Step, thought: str = "", call_id: str = "") -> list[Message]:
    """Return an agent's message with its call, and the result. `bench` is the bench after the step."""
    result = _render_result(bench, step)
    if step.outcome.rejected_by == RejectedBy.PARSER:
        # The reply was no action, and its text is not stored.
        return [
            {"role": "assistant", "content": thought or "(a reply without a readable action)"},
            {"role": "user", "content": result},
        ]
    call_id, action = call_id or f"call_{step.number:04}", step.action
    call = build_call(action.name, list(action.materials), action.parameters, call_id)
    return [
        {"role": "assistant", "content": thought, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def episode_to_messages(
    bench: Bench, steps: Iterable[Step], thoughts: Mapping[str, str] | None = None
) -> list[Message]:
    """Return a whole episode as chat messages. `bench` is taken from its initial to its final state.

    `thoughts` are what the agent wrote before an action, by the step's number as text.
    """
    messages = build_opening(bench.get_situation())
    for step in steps:
        bench.replay_steps([step])
        messages += build_turn(bench, step, (thoughts or {}).get(str(step.number), ""))
    return messages


def _render_result(bench: Bench, step: Step) -> str:
    left = bench.max_steps - bench.steps_used
    state = f"TIME: {rendering.format_clock(bench.elapsed)} since the start; {format_count(left, 'step')} left"
    ended = [f"ENDED: {bench.ending}"] if bench.ending else []
    return "\n".join([rendering.render_step(step), state, *ended])
