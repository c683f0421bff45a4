"""What the numbers are of: shares that every reader of a rate needs beside it."""

from collections import Counter
from typing import Any

import numpy as np
from django.db.models import Count, Exists, OuterRef, QuerySet

from ratings.models import ItemSource, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol.reference import CHOICES, PLANTED, UNPERTURBED, name_kind
from ratings.results.analyses.reading import Arm, Reading
from ratings.results.analyses.sections_raters import Seat, contested
from ratings.results.analyses.tables import Json


def of(study: Study, read: Reading, seats: list[Seat]) -> Json:
    """Of the whole study, whatever is read, since it is what raters met: planted_share, the planted of the rated items that are
    planted or unperturbed, None where none is; references, rated items by reference ("not known" where nobody states one), and in words
    where planted_share is not of all of them;
    errors, rated items by error or what else is known; arms, ratings by how items were shown. Of what is read all else;
    contested: items that raters are not of one mind about."""
    counting = read.columns.counts
    given = Rating.objects.filter(
        assignment__item__study=study, assignment__rater__dropped=False, assignment__occasion=FIRST,
        assignment__released_at__isnull=True, assignment__surplus=False,
    )  # fmt: skip
    kinds = _count_kinds(study, given)
    errors, references = Counter[str](), Counter[str]()
    for (perturbation, reference), n in kinds.items():
        errors[name_kind(perturbation, reference)] += n
        references[reference] += n
    planted = references[PLANTED]
    machines = study.machine_raters.order_by("pk").values_list("label", "name")
    return {
        "planted_share": planted / (planted + references[UNPERTURBED]) if planted else None,
        "references": {name: references[one] for one, name in CHOICES if references[one]},
        "references_said": _say_references(references),
        "errors": dict(sorted(errors.items())),
        "arms": _arms(given),
        "simulated": _simulated(read, seats),
        "imported": _imported(read),
        "machines": [f"{label}, {name}" for label, name in machines],
        "contested": contested(read),
        "cannot_judge": int(np.sum(counting & (read.columns.verdict < 0))),
        "surplus": int(np.sum((read.columns.occasion == 1) & ~counting)),
    }


def _count_kinds(study: Study, given: QuerySet[Rating]) -> Counter[tuple[str, str]]:
    """Return how many of the items with one of these ratings have which perturbation and reference."""
    rated = ItemSource.objects.filter(Exists(given.filter(assignment__item=OuterRef("item"))), item__study=study)
    rows = rated.order_by().values_list("perturbation", "reference").annotate(n=Count("pk"))
    return Counter({(perturbation, reference): n for perturbation, reference, n in rows})


def _say_references(references: Counter[str]) -> str:
    """Return "8 planted, 8 unperturbed, 8 not known"; "" where nothing was planted, and where a share says it all."""
    others = references.keys() - {PLANTED, UNPERTURBED}
    if not others or not references[PLANTED]:
        return ""
    return ", ".join(f"{references[one]:,} {name}" for one, name in CHOICES if references[one])


def _arms(given: QuerySet[Rating]) -> dict[str, dict[str, float]]:
    """By what was varied or not: the share of the ratings given in each arm, those from elsewhere left out."""
    here = given.filter(imported=False).order_by()
    columns = "assignment__layout", "assignment__with_context", "assignment__marks"
    counts = list(here.values_list(*columns).annotate(n=Count("pk")))
    found: dict[str, dict[str, float]] = {}
    for name in Arm._fields:
        by_arm: Counter[str] = Counter()
        for layout, context, marks, n in counts:
            by_arm[getattr(Arm(layout, "yes" if context else "no", marks), name)] += n
        found[name] = {arm: n / by_arm.total() for arm, n in sorted(by_arm.items()) if n}
    return found


def _simulated(read: Reading, seats: list[Seat]) -> Json:
    """How many raters are simulated, and how many of the ratings are theirs; `said` is "" if none."""
    counting = read.columns.counts
    with_ratings = {read.raters[at] for at in np.unique(read.columns.rater[counting])}
    made = {seat.label for seat in seats if seat.who == "simulated"} & with_ratings
    ratings, every = int(np.sum(counting & read.columns.simulated)), int(counting.sum())
    return {
        "raters": len(made),
        "of_raters": len(with_ratings),
        "ratings": ratings,
        "of_ratings": every,
        "said": _simulated_said(len(made), len(with_ratings), ratings, every),
    }


def _simulated_said(made: int, raters: int, ratings: int, every: int) -> str:
    if not made:
        return ""
    if made == raters:
        return f"All {raters} raters are simulated: these numbers say nothing of people."
    return f"{made} of {raters} raters are simulated; they gave {ratings:,} of {every:,} ratings."


def _imported(read: Reading) -> dict[str, Any]:
    ratings, every = int(np.sum(read.columns.counts & read.columns.imported)), int(read.columns.counts.sum())
    said = f"{ratings:,} of {every:,} ratings were collected elsewhere and imported." if ratings else ""
    return {"ratings": ratings, "of_ratings": every, "said": said}
