"""Visual inspection. Answers come from what is declared to be visible, or from the state; pictures are only recorded."""

from collections.abc import Callable, Sequence

from simulation.offline.handlers.loading import look_up, look_up_all
from simulation.offline.job import Job
from simulation.offline.responses import read_responses
from simulation.offline.vessels import Vessel

_LOOKS = ("look like", "appearance", "phase")  # words of a question about the state of a sample


def inspect(context: Job) -> None:
    """Record every declared sight that the question asks about, or the state of the sample if it asks for that."""
    question = context.values["question"]
    relevant = [lookup for lookup in context.declared("lookups") if _asked(question, lookup.get("about", ()))]
    for vessel in context.samples():
        answers = [look_up(vessel.contents, lookup) for lookup in relevant]
        # Only if nothing declared matches: a declared sight is more specific than the state.
        answers += [_appearance(vessel)] if not relevant and _asked(question, _LOOKS) else []
        answer = "; ".join(answer for answer in answers if answer)
        suffix = "" if answer else ": nothing to be seen that answers the question"
        context.say(f"Visual inspection of {vessel.name}{suffix}", "visual", answer)
    context.how = "What the experiment declares to be visible, or the state of the sample."


def photograph(context: Job) -> None:
    for vessel in context.samples():
        # Called first, because `and` below would skip it where a look-up has a value.
        has_readings = read_responses(context, vessel, vessel.contents)
        if not look_up_all(context, vessel, vessel.contents) and not has_readings:
            context.say(f"Photograph of {vessel.name} from {_view(context)}: recorded", "visual")
    context.how = "A picture is recorded; the simulation draws none."


def _view(context: Job) -> str:
    return "the side" if context.values["view"] == "side" else "above"


def _asked(question: str, about: Sequence[str]) -> bool:
    return any(word.lower() in question.lower() for word in about)


def _appearance(vessel: Vessel) -> str:
    parts = [vessel.phase, str(vessel.properties.get("appearance", "")), str(vessel.properties.get("container", ""))]
    return ", ".join(text for text in parts if text)


HANDLERS: dict[str, Callable[[Job], None]] = {
    "inspect": inspect,
    "photograph": photograph,
}
