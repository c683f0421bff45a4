"""A study document in plain words, section by section, as the study's page shows it."""

from collections.abc import Mapping
from typing import NamedTuple

from ratings.models import TRANSITION, ItemSource, Study
from ratings.protocol import StudyProtocol
from ratings.protocol.study_protocol import CHOICES
from ratings.studies.designs import load_study_protocol
from simulation.models import Twin
from simulation.runs import vetting
from wetbench_site.text import format_count

Facts = Mapping[str, str | list[str]]
UNREVIEWED_NOTE = "accepted unread by `make paper`: nobody has checked them"


class DocumentFact(NamedTuple):
    """One line of the document; `step` is the step of the builder in which it is set."""

    step: str
    name: str
    values: tuple[str, ...]


def describe_document(study: Study) -> list[DocumentFact]:
    """Return the facts about how the study was made, for raters and for readers of the results."""
    protocol = load_study_protocol(study)
    facts: dict[str, Facts] = {
        "question": {"Kind": _name_choice("kind", study.kind)},
        "items": _describe_items(study, protocol),
        "raters": _describe_raters(study, protocol),
        "screen": _describe_screen(study, protocol),
    }
    stated = ((step, name, values) for step, lines in facts.items() for name, values in lines.items() if values)
    return [DocumentFact(step, name, (v,) if isinstance(v, str) else tuple(v)) for step, name, v in stated]


def has_unreviewed_errors(study: Study) -> bool:
    """Return whether the study as a whole has planted errors that nobody has reviewed; False before unblinding."""
    # No page about a sealed study reads its sources.
    if not study.is_unblinded:
        return False
    unreviewed = vetting.filter_accepted_unread(Twin.objects.all())
    return ItemSource.objects.filter(item__study=study, twin__in=unreviewed.values("pk")).exists()


def _name_choice(field: str, value: str) -> str:
    return CHOICES[field][value].name


def _describe_items(study: Study, protocol: StudyProtocol) -> Facts:
    imported, planted = study.imported_items.count(), protocol.planted_share
    sources = [f"{s.count} by {s.cast}{'' if s.perturbation == 'none' else f', {s.perturbation} errors'}" for s in protocol.sources]  # fmt: skip
    # Only studies of steps have these: a record of evidence is shown in full and carries no planted error.
    of_steps: Facts = {
        "Actions": ", ".join(protocol.actions) or "all",
        "Errors checked by": [
            _name_choice("vetting", protocol.vetting),
            *([f"some {UNREVIEWED_NOTE}"] if has_unreviewed_errors(study) else []),
        ],
    }
    return {
        "Items": [*sources, *([f"{imported} imported"] if imported else [])] or "none yet",
        "Planted errors": "" if planted is None else f"{planted:.0%} of those from the pool",
        "Experiments": ", ".join(protocol.experiments) or "all",
        **(of_steps if study.kind == TRANSITION else {}),
        "Items of unblinded studies": "allowed" if protocol.allow_unblinded else "left out",
        "Seed": str(protocol.seed),
    }


def _describe_raters(study: Study, protocol: StudyProtocol) -> Facts:
    most = f", at most {protocol.items_per_rater} items each" if protocol.items_per_rater else ""
    repeats = f"{protocol.repeats:.0%} of a rater’s items, {protocol.repeat_distance} or more later"
    stop, is_crossover = _name_choice("stop", protocol.stop), protocol.is_crossover
    return {
        "Design": _name_choice("design", protocol.design),
        "Sessions compare": _name_choice("conditions", protocol.conditions or "") if is_crossover else "",
        "Washout between sessions": f"{format_count(protocol.washout_days, 'day')} or more" if is_crossover else "",
        "Ratings per item": str(study.ratings_per_item),
        "Raters": f"{protocol.raters or 'as few as needed'}{most}",
        "Practice": f"{protocol.practice} items" if protocol.practice else "none",
        "Shown again": repeats if protocol.repeats else "nothing",
        "Complete when": f"{protocol.stop_ratings} ratings are collected"
        if protocol.stop == "ratings"
        else stop[0].lower() + stop[1:],
        "Deadline": f"{study.deadline.day} {study.deadline:%B %Y}" if study.deadline else "",
        "Withdrawal": _name_choice("withdrawal", protocol.withdrawal),
        "Own result": "shown after unblinding" if protocol.feedback else "not shown",
        "Review of own items": "open to raters after unblinding" if protocol.review else "not offered",
    }


def _describe_screen(study: Study, protocol: StudyProtocol) -> Facts:
    # A record of evidence has one layout, and its goal is always shown.
    display, is_step_study = protocol.display, study.kind == TRANSITION
    has_several = len(display.marks) > 1 or (is_step_study and max(len(display.layouts), len(display.context)) > 1)
    contexts = [_name_choice("context", "on" if shown else "off") for shown in display.context]
    return {
        "Layout": [_name_choice("layouts", layout) for layout in display.layouts] if is_step_study else "",
        "Goal and earlier steps": contexts if is_step_study else "",
        "Marks": [_name_choice("marks", marks) for marks in display.marks],
        "By chance": _name_choice("by", display.by) if has_several else "",
        "Calculator": "offered" if display.calculator else "not offered",
    }
