"""Looking: answers come from what is declared to be visible, or from the state; pictures are recorded, not invented."""

from collections.abc import Callable, Sequence

from simulation.offline.handlers.loading import look_up, look_up_all
from simulation.offline.job import Job
from simulation.offline.responses import read_responses
from simulation.offline.vessels import Vessel

_LOOKS = ("look like", "appearance", "phase")  # words of a question that the state of a sample answers


def inspect(job: Job) -> None:
    """Every declared sight the question asks about; what anybody would note down where it asks for the looks."""
    question = job.values["question"]
    asked = [lookup for lookup in job.declared("lookups") if _asked(question, lookup.get("about", ()))]
    for vessel in job.samples():
        answers = [look_up(vessel.contents, lookup) for lookup in asked]
        answers += [_appearance(vessel)] if not asked and _asked(question, _LOOKS) else []
        answer = "; ".join(answer for answer in answers if answer)
        told = "" if answer else ": nothing to be seen that answers the question"
        job.say(f"Visual inspection of {vessel.name}{told}", "visual", answer)
    job.how = "What the experiment declares to be visible, or the state of the sample."


def photograph(job: Job) -> None:
    for vessel in job.samples():
        read = read_responses(job, vessel, vessel.contents)
        if not look_up_all(job, vessel, vessel.contents) and not read:
            job.say(f"Photograph of {vessel.name} from {_view(job)}: recorded", "visual")
    job.how = "A picture is recorded; the simulation draws none."


def _view(job: Job) -> str:
    return "the side" if job.values["view"] == "side" else "above"


def _asked(question: str, about: Sequence[str]) -> bool:
    return any(word.lower() in question.lower() for word in about)


def _appearance(vessel: Vessel) -> str:
    seen = [vessel.phase, str(vessel.properties.get("appearance", "")), str(vessel.properties.get("container", ""))]
    return ", ".join(part for part in seen if part)


HANDLERS: dict[str, Callable[[Job], None]] = {
    "inspect": inspect,
    "photograph": photograph,
}
