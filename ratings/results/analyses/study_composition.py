"""The composition of a study: the shares of its items and ratings that are needed to interpret a rate."""

from collections import Counter
from typing import Any

import numpy as np
from django.db.models import Count, Exists, OuterRef, QuerySet

from ratings.models import ItemSource, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol.reference import CHOICES, PLANTED, UNPERTURBED, name_contrast_group
from ratings.results.analyses.rating_columns import AnalysisData, DisplayArm
from ratings.results.analyses.sections_raters import RaterSummary, count_contested
from ratings.results.analyses.tables import Json


def build_composition(study: Study, data: AnalysisData, raters: list[RaterSummary]) -> Json:
    """Return the composition of the study and of the ratings in `data`.

    The following entries are for the whole study, regardless of filters, because they describe what raters saw:

    - planted_share: share of planted items among the rated items that are planted or unperturbed; None if none is planted
    - references: number of rated items by reference ("not known" if it is not stated)
    - references_said: the same in words, if planted_share does not include all rated items
    - errors: number of rated items by planted error, or by declared truth if the perturbation is not stated
    - arms: share of the ratings by display arm

    The other entries are for the ratings in `data`; `contested` is the number of items on which raters disagree.
    """
    counting = data.columns.counts
    # The ratings are not taken from `data`, because filters do not change what raters saw.
    ratings = Rating.objects.filter(
        assignment__item__study=study, assignment__rater__dropped=False, assignment__occasion=FIRST,
        assignment__released_at__isnull=True, assignment__surplus=False,
    )  # fmt: skip
    kinds = _count_kinds(study, ratings)
    errors, references = Counter[str](), Counter[str]()
    for (perturbation, reference), n in kinds.items():
        errors[name_contrast_group(perturbation, reference)] += n
        references[reference] += n
    planted = references[PLANTED]
    machines = study.machine_raters.order_by("pk").values_list("label", "name")
    return {
        "planted_share": planted / (planted + references[UNPERTURBED]) if planted else None,
        "references": {name: references[value] for value, name in CHOICES if references[value]},
        "references_said": _summarise_references(references),
        "errors": dict(sorted(errors.items())),
        "arms": _compute_arm_shares(ratings),
        "simulated": _describe_simulated(data, raters),
        "imported": _describe_imported(data),
        "machines": [f"{label}, {name}" for label, name in machines],
        "contested": count_contested(data),
        "cannot_judge": int(np.sum(counting & (data.columns.verdict < 0))),
        "surplus": int(np.sum((data.columns.occasion == 1) & ~counting)),
    }


def _count_kinds(study: Study, ratings: QuerySet[Rating]) -> Counter[tuple[str, str]]:
    """Count the items that have one of these ratings, by perturbation and reference."""
    rated_sources = ItemSource.objects.filter(
        Exists(ratings.filter(assignment__item=OuterRef("item"))), item__study=study
    )
    rows = rated_sources.order_by().values_list("perturbation", "reference").annotate(n=Count("pk"))
    return Counter({(perturbation, reference): n for perturbation, reference, n in rows})


def _summarise_references(references: Counter[str]) -> str:
    """Return the numbers of items by reference, such as "8 planted, 8 unperturbed, 8 not known".

    It is "" if no item is planted, or if planted_share includes all items.
    """
    others = references.keys() - {PLANTED, UNPERTURBED}
    if not others or not references[PLANTED]:
        return ""
    return ", ".join(f"{references[value]:,} {name}" for value, name in CHOICES if references[value])


def _compute_arm_shares(ratings: QuerySet[Rating]) -> dict[str, dict[str, float]]:
    """Return the share of the ratings in each display arm; ratings collected elsewhere are left out."""
    collected_here = ratings.filter(imported=False).order_by()
    columns = "assignment__layout", "assignment__with_context", "assignment__marks"
    counts = list(collected_here.values_list(*columns).annotate(n=Count("pk")))
    shares: dict[str, dict[str, float]] = {}
    for name in DisplayArm._fields:
        by_arm: Counter[str] = Counter()
        for layout, context, marks, n in counts:
            by_arm[getattr(DisplayArm(layout, "yes" if context else "no", marks), name)] += n
        shares[name] = {arm: n / by_arm.total() for arm, n in sorted(by_arm.items()) if n}
    return shares


def _describe_simulated(data: AnalysisData, raters: list[RaterSummary]) -> Json:
    """Return the numbers of simulated raters and of their ratings, and `said`, a sentence about them ("" if there
    are none).
    """
    counting = data.columns.counts
    with_ratings = {data.raters[at] for at in np.unique(data.columns.rater[counting])}
    simulated_labels = {rater.label for rater in raters if rater.who == "simulated"} & with_ratings
    ratings, n_ratings = int(np.sum(counting & data.columns.simulated)), int(counting.sum())
    return {
        "raters": len(simulated_labels),
        "of_raters": len(with_ratings),
        "ratings": ratings,
        "of_ratings": n_ratings,
        "said": _format_simulated(len(simulated_labels), len(with_ratings), ratings, n_ratings),
    }


def _format_simulated(simulated: int, raters: int, ratings: int, n_ratings: int) -> str:
    if not simulated:
        return ""
    if simulated == raters:
        return f"All {raters} raters are simulated: these are not human data."
    return f"{simulated} of {raters} raters are simulated; they gave {ratings:,} of {n_ratings:,} ratings."


def _describe_imported(data: AnalysisData) -> dict[str, Any]:
    ratings, n_ratings = int(np.sum(data.columns.counts & data.columns.imported)), int(data.columns.counts.sum())
    sentence = f"{ratings:,} of {n_ratings:,} ratings were collected elsewhere and imported." if ratings else ""
    return {"ratings": ratings, "of_ratings": n_ratings, "said": sentence}
