"""A study document in plain words, section by section, as the study's page shows it."""

from typing import NamedTuple

from ratings.models import TRANSITION, Study
from ratings.protocol import StudyProtocol, protocols
from ratings.protocol.choices import WORDS
from ratings.studies.pool import accepted_unread


class Fact(NamedTuple):
    """One line of the document; `step` is the step of the builder in which it is set."""

    step: str
    name: str
    said: tuple[str, ...]


def facts(study: Study) -> list[Fact]:
    """Return all that raters and readers of the results may want to know about how the study was made."""
    protocol = protocols.stored(study.protocol)
    imported = study.imported_items.count()
    return [
        Fact("question", "Kind", (WORDS["kind"][study.kind].name,)),
        *_items(study, protocol, imported),
        *_raters(study, protocol),
        *_screen(study, protocol),
    ]


def _items(study: Study, protocol: StudyProtocol, imported: int) -> list[Fact]:
    sources = [f"{s.count} by {s.cast}{'' if s.perturbation == 'none' else f', {s.perturbation} errors'}" for s in protocol.sources]  # fmt: skip
    sources += [f"{imported} imported"] if imported else []
    planted = protocol.prevalence
    return [
        Fact("items", "Items", tuple(sources) or ("none yet",)),
        *([Fact("items", "Planted errors", (f"{planted:.0%} of those from the pool",))] if planted is not None else []),
        Fact("items", "Experiments", (", ".join(protocol.experiments) or "all",)),
        *(_only_of_steps(study, protocol) if study.kind == TRANSITION else []),
        Fact("items", "Items of unblinded studies", ("allowed" if protocol.allow_unblinded else "left out",)),
        Fact("items", "Seed", (str(protocol.seed),)),
    ]


def _only_of_steps(study: Study, protocol: StudyProtocol) -> list[Fact]:
    # Only studies of steps have these: a record of evidence is shown in full and carries no planted error.
    unreviewed_note = (f"some {accepted_unread.SAID}",) if accepted_unread.says_unread(study) else ()
    return [
        Fact("items", "Actions", (", ".join(protocol.actions) or "all",)),
        Fact("items", "Errors checked by", (WORDS["vetting"][protocol.vetting].name, *unreviewed_note)),
    ]


def _raters(study: Study, protocol: StudyProtocol) -> list[Fact]:
    most = f", at most {protocol.items_per_rater} items each" if protocol.items_per_rater else ""
    seats = str(protocol.raters) if protocol.raters else "as few as needed"
    return [
        Fact("raters", "Design", (WORDS["design"][protocol.design].name,)),
        *(_sessions(protocol) if protocol.is_crossover else []),
        Fact("raters", "Ratings per item", (str(study.ratings_per_item),)),
        Fact("raters", "Raters", (f"{seats}{most}",)),
        Fact("raters", "Practice", (f"{protocol.practice} items" if protocol.practice else "none",)),
        Fact("raters", "Shown again", (_repeats(protocol),)),
        Fact("raters", "Complete when", (_stop(study, protocol),)),
        *([Fact("raters", "Deadline", (f"{study.deadline.day} {study.deadline:%B %Y}",))] if study.deadline else []),
        Fact("raters", "Withdrawal", (WORDS["withdrawal"][protocol.withdrawal].name,)),
        Fact("raters", "Own result", ("shown after unblinding" if protocol.feedback else "not shown",)),
    ]


def _sessions(protocol: StudyProtocol) -> list[Fact]:
    days = f"{protocol.washout_days} day{'s' * (protocol.washout_days != 1)} or more"
    compared = WORDS["conditions"][protocol.conditions or ""].name
    return [Fact("raters", "Sessions compare", (compared,)), Fact("raters", "Washout between sessions", (days,))]


def _repeats(protocol: StudyProtocol) -> str:
    if not protocol.repeats:
        return "nothing"
    return f"{protocol.repeats:.0%} of a rater’s items, {protocol.repeat_distance} or more later"


def _stop(study: Study, protocol: StudyProtocol) -> str:
    if protocol.stop == "ratings":
        return f"{protocol.stop_ratings} ratings are collected"
    return WORDS["stop"][protocol.stop].name[0].lower() + WORDS["stop"][protocol.stop].name[1:]


def _screen(study: Study, protocol: StudyProtocol) -> list[Fact]:
    # A record of evidence has one layout, and its goal is always shown.
    display, is_step_study = protocol.display, study.kind == TRANSITION
    has_several = len(display.marks) > 1 or (is_step_study and max(len(display.layouts), len(display.context)) > 1)
    layout = [
        Fact("screen", "Layout", tuple(WORDS["layouts"][one].name for one in display.layouts)),
        Fact("screen", "Goal and earlier steps", tuple(WORDS["context"]["on" if one else "off"].name for one in display.context)),
    ]  # fmt: skip
    return [
        *(layout if is_step_study else []),
        Fact("screen", "Marks", tuple(WORDS["marks"][one].name for one in display.marks)),
        *([Fact("screen", "By chance", (WORDS["by"][display.by].name,))] if has_several else []),
    ]  # fmt: skip
