"""Visual inspection and photographs. Answers are declared texts or the sample's state. No picture is drawn."""

from collections.abc import Callable, Sequence

from simulation.offline.action_context import ActionContext
from simulation.offline.handlers.loading import find_lookup_text, record_lookups
from simulation.offline.responses import record_responses
from simulation.offline.vessels import Vessel

_STATE_WORDS = ("look like", "appearance", "phase")  # words of a question about the state of a sample


def inspect_samples(context: ActionContext) -> None:
    """Record every declared text that the question asks about. If there is none, record the state if asked for it."""
    question = context.values["question"]
    relevant = [
        lookup for lookup in context.list_declared("lookups") if _is_asked_about(question, lookup.get("about", ()))
    ]
    for vessel in context.get_samples():
        answers = [find_lookup_text(vessel.contents, lookup) for lookup in relevant]
        # The state is used only if no declared text matches, because a declared text is more specific.
        answers += [_describe_appearance(vessel)] if not relevant and _is_asked_about(question, _STATE_WORDS) else []
        answer = "; ".join(answer for answer in answers if answer)
        suffix = "" if answer else ": nothing to be seen that answers the question"
        context.record_observation(f"Visual inspection of {vessel.name}{suffix}", "visual", answer)
    context.reasoning = "What the experiment declares to be visible, or the state of the sample."


def photograph_samples(context: ActionContext) -> None:
    for vessel in context.get_samples():
        # Called first, because `and` below would skip it where a look-up has a value.
        has_readings = record_responses(context, vessel, vessel.contents)
        if not record_lookups(context, vessel, vessel.contents) and not has_readings:
            context.record_observation(
                f"Photograph of {vessel.name} from {_describe_view(context)}: recorded", "visual"
            )
    context.reasoning = "A picture is recorded; the simulation draws none."


def _describe_view(context: ActionContext) -> str:
    return "the side" if context.values["view"] == "side" else "above"


def _is_asked_about(question: str, about: Sequence[str]) -> bool:
    return any(word.lower() in question.lower() for word in about)


def _describe_appearance(vessel: Vessel) -> str:
    parts = [vessel.phase, str(vessel.properties.get("appearance", "")), str(vessel.properties.get("container", ""))]
    return ", ".join(text for text in parts if text)


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "inspect": inspect_samples,
    "photograph": photograph_samples,
}
