"""A study document in plain words, section by section, as the study's page shows it."""

from typing import NamedTuple

from ratings.models import TRANSITION, Study
from ratings.protocol import StudyProtocol, study_protocol
from ratings.protocol.choices import CHOICES
from ratings.studies.pool import unreviewed_errors


class DocumentFact(NamedTuple):
    """One line of the document; `step` is the step of the builder in which it is set."""

    step: str
    name: str
    values: tuple[str, ...]


def describe_document(study: Study) -> list[DocumentFact]:
    """Return the facts about how the study was made, for raters and for readers of the results."""
    protocol = study_protocol.load_protocol(study.protocol)
    imported = study.imported_items.count()
    return [
        DocumentFact("question", "Kind", (CHOICES["kind"][study.kind].name,)),
        *_describe_items(study, protocol, imported),
        *_describe_raters(study, protocol),
        *_describe_screen(study, protocol),
    ]


def _describe_items(study: Study, protocol: StudyProtocol, imported: int) -> list[DocumentFact]:
    sources = [f"{s.count} by {s.cast}{'' if s.perturbation == 'none' else f', {s.perturbation} errors'}" for s in protocol.sources]  # fmt: skip
    sources += [f"{imported} imported"] if imported else []
    planted = protocol.planted_share
    return [
        DocumentFact("items", "Items", tuple(sources) or ("none yet",)),
        *(
            [DocumentFact("items", "Planted errors", (f"{planted:.0%} of those from the pool",))]
            if planted is not None
            else []
        ),
        DocumentFact("items", "Experiments", (", ".join(protocol.experiments) or "all",)),
        *(_describe_step_options(study, protocol) if study.kind == TRANSITION else []),
        DocumentFact("items", "Items of unblinded studies", ("allowed" if protocol.allow_unblinded else "left out",)),
        DocumentFact("items", "Seed", (str(protocol.seed),)),
    ]


def _describe_step_options(study: Study, protocol: StudyProtocol) -> list[DocumentFact]:
    # Only studies of steps have these: a record of evidence is shown in full and carries no planted error.
    unreviewed_note = (
        (f"some {unreviewed_errors.UNREVIEWED_NOTE}",) if unreviewed_errors.has_unreviewed_errors(study) else ()
    )
    return [
        DocumentFact("items", "Actions", (", ".join(protocol.actions) or "all",)),
        DocumentFact("items", "Errors checked by", (CHOICES["vetting"][protocol.vetting].name, *unreviewed_note)),
    ]


def _describe_raters(study: Study, protocol: StudyProtocol) -> list[DocumentFact]:
    most = f", at most {protocol.items_per_rater} items each" if protocol.items_per_rater else ""
    raters = str(protocol.raters) if protocol.raters else "as few as needed"
    return [
        DocumentFact("raters", "Design", (CHOICES["design"][protocol.design].name,)),
        *(_describe_sessions(protocol) if protocol.is_crossover else []),
        DocumentFact("raters", "Ratings per item", (str(study.ratings_per_item),)),
        DocumentFact("raters", "Raters", (f"{raters}{most}",)),
        DocumentFact("raters", "Practice", (f"{protocol.practice} items" if protocol.practice else "none",)),
        DocumentFact("raters", "Shown again", (_describe_repeats(protocol),)),
        DocumentFact("raters", "Complete when", (_describe_stop_rule(study, protocol),)),
        *(
            [DocumentFact("raters", "Deadline", (f"{study.deadline.day} {study.deadline:%B %Y}",))]
            if study.deadline
            else []
        ),
        DocumentFact("raters", "Withdrawal", (CHOICES["withdrawal"][protocol.withdrawal].name,)),
        DocumentFact("raters", "Own result", ("shown after unblinding" if protocol.feedback else "not shown",)),
    ]


def _describe_sessions(protocol: StudyProtocol) -> list[DocumentFact]:
    days = f"{protocol.washout_days} day{'s' * (protocol.washout_days != 1)} or more"
    compared = CHOICES["conditions"][protocol.conditions or ""].name
    return [
        DocumentFact("raters", "Sessions compare", (compared,)),
        DocumentFact("raters", "Washout between sessions", (days,)),
    ]


def _describe_repeats(protocol: StudyProtocol) -> str:
    if not protocol.repeats:
        return "nothing"
    return f"{protocol.repeats:.0%} of a rater’s items, {protocol.repeat_distance} or more later"


def _describe_stop_rule(study: Study, protocol: StudyProtocol) -> str:
    if protocol.stop == "ratings":
        return f"{protocol.stop_ratings} ratings are collected"
    return CHOICES["stop"][protocol.stop].name[0].lower() + CHOICES["stop"][protocol.stop].name[1:]


def _describe_screen(study: Study, protocol: StudyProtocol) -> list[DocumentFact]:
    # A record of evidence has one layout, and its goal is always shown.
    display, is_step_study = protocol.display, study.kind == TRANSITION
    has_several = len(display.marks) > 1 or (is_step_study and max(len(display.layouts), len(display.context)) > 1)
    layout = [
        DocumentFact("screen", "Layout", tuple(CHOICES["layouts"][one].name for one in display.layouts)),
        DocumentFact("screen", "Goal and earlier steps", tuple(CHOICES["context"]["on" if one else "off"].name for one in display.context)),
    ]  # fmt: skip
    return [
        *(layout if is_step_study else []),
        DocumentFact("screen", "Marks", tuple(CHOICES["marks"][one].name for one in display.marks)),
        *([DocumentFact("screen", "By chance", (CHOICES["by"][display.by].name,))] if has_several else []),
    ]  # fmt: skip
