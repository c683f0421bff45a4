"""What a study's frozen document states about how items are assigned and shown."""

from datetime import timedelta

from ratings.models import Rater, Study
from ratings.protocol import Arm, StudyProtocol, planning, study_protocol
from ratings.protocol.document_errors import CROSSED


def load_study_protocol(study: Study) -> StudyProtocol:
    return study_protocol.load_protocol(study.protocol)


def is_pool_study(study: Study) -> bool:
    """Return whether raters reserve items one at a time, so that nothing is assigned beforehand."""
    return bool(study.protocol.get("design") == "pool")


def is_crossed(study: Study) -> bool:
    """Return whether every rater rates every item, in one session or in two."""
    return study.protocol.get("design") in CROSSED


def is_crossover(study: Study) -> bool:
    """Return whether every rater rates two conditions in two sessions."""
    return bool(study.protocol.get("design") == "crossover")


def get_reservation_time(study: Study) -> timedelta:
    return timedelta(minutes=load_study_protocol(study).lease_minutes)


def list_arms_of(protocol: StudyProtocol) -> tuple[Arm, ...]:
    display = protocol.display
    return planning.list_arms(display.layouts, display.context, display.marks)


def get_arm(rater: Rater) -> Arm:
    """Return this rater's own display arm, or the study's first arm if arms change from item to item."""
    protocol = load_study_protocol(rater.study)
    all_arms = list_arms_of(protocol)
    return (
        planning.arm_of_rater(all_arms, rater.study.random_seed, rater.number)
        if protocol.display.by == "rater"
        else all_arms[0]
    )
