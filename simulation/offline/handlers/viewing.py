"""Looking: answers come from what is declared to be visible, or from the state; pictures are recorded, not invented."""

from collections.abc import Callable

from simulation.offline.handlers.measurements import look_up, record
from simulation.offline.handlers.thermal import need_format
from simulation.offline.job import Job
from simulation.offline.vessels import FROZEN, RefusalError, Vessel, cells_in

_STAGE = ("plate", "dish", "culture flask", "slide", "chamber")


def inspect(job: Job) -> None:
    """With a question, every declared sight it asks about; without one, what anybody would note down."""
    question = job.values["question"]
    for vessel in job.samples():
        if question is None:
            job.say(f"Visual inspection of {vessel.name}", "visual", _appearance(vessel))
            continue
        answers = [look_up(vessel, lookup) for lookup in job.declared("lookups") if _asked(question, lookup["about"])]
        answer = "; ".join(answer for answer in answers if answer)
        told = "" if answer else ": nothing to be seen that answers the question"
        job.say(f"Visual inspection of {vessel.name}{told}", "visual", answer)
    job.how = "What the experiment declares to be visible, or the state of the sample."


def photograph(job: Job) -> None:
    for vessel in job.samples():
        job.say(f"Photograph of {vessel.name} from {_view(job)}: recorded", "visual")
    job.how = "A picture is recorded; the simulation draws none."


def microscope(job: Job) -> None:
    for vessel in job.samples():
        need_format(vessel, _STAGE, "the stage takes plates, dishes, culture flasks and slides")
        if vessel.phase == FROZEN:
            vessel.need_liquid("imaged")
        if not cells_in(vessel.contents):
            raise RefusalError(f"no cells: there is nothing to image in {vessel.name}")
        record(job, vessel)
    job.how = "Images are recorded; the simulation draws none."


def _view(job: Job) -> str:
    return "the side" if job.values["view"] == "side" else "above"


def _asked(question: str, about: list[str]) -> bool:
    return any(word.lower() in question.lower() for word in about)


def _appearance(vessel: Vessel) -> str:
    seen = [vessel.phase, str(vessel.properties.get("appearance", "")), str(vessel.properties.get("container", ""))]
    return ", ".join(part for part in seen if part)


HANDLERS: dict[str, Callable[[Job], None]] = {
    "inspect": inspect,
    "photograph": photograph,
    "microscope": microscope,
}
