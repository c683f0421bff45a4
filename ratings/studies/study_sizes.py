"""The size of a draft: items by class, ratings and work per rater; and a draft of another size."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ratings.models import TRANSITION, Study
from ratings.protocol import StudyProtocol, study_protocol
from ratings.protocol.reference import WITH_ERROR
from ratings.protocol.study_protocol import PERTURBATIONS
from ratings.studies import StudyError, progress
from wetbench_site.text import format_count


class ItemClasses(NamedTuple):
    """Numbers of items without a planted error, with an obvious one, and with a subtle one."""

    unperturbed: int
    obvious: int
    subtle: int

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def planted(self) -> int:
        return self.obvious + self.subtle


class StudySizes(NamedTuple):
    """The size of a planned study; `raters` is None for as few as possible."""

    items: int
    planted: int
    ratings: int
    raters: int | None
    each: int | None  # approximate number of items per rater, without repeats

    @property
    def percent_planted(self) -> int:
        return round(100 * self.planted / self.items) if self.items else 0


def compute_sizes(study: Study) -> StudySizes:
    """Return the size of the study that a draft describes."""
    protocol = study_protocol.load_protocol(study.protocol)
    classes = count_classes(study, protocol)
    raters = protocol.ratings_per_item if protocol.is_crossed else protocol.raters
    n_ratings = classes.total * protocol.ratings_per_item
    return StudySizes(classes.total, classes.planted, n_ratings, raters, -(-n_ratings // raters) if raters else None)


def count_classes(study: Study, protocol: StudyProtocol) -> ItemClasses:
    """Return the numbers of items that a draft requests or has imported, by class."""
    requested = Counter[str]()
    for source in protocol.sources:
        requested[source.perturbation] += source.count
    imported = count_imported(study)
    # A crossover of screens shows every item twice, once on each screen.
    n_screens = 2 if protocol.conditions == "screens" else 1
    return ItemClasses(*(n_screens * (requested[name] + n) for name, n in zip(PERTURBATIONS, imported, strict=True)))


def count_imported(study: Study) -> ItemClasses:
    """Return the numbers of imported items. One that is only declared wrong counts as a subtle error."""
    counts = Counter[str]()
    for reference, perturbation in study.imported_items.values_list("reference", "perturbation"):
        counts["none" if reference not in WITH_ERROR else perturbation if perturbation == "obvious" else "subtle"] += 1
    return ItemClasses(*(counts[name] for name in PERTURBATIONS))


def estimate_hours(study: Study, items: float, minutes_per_item: float) -> float:
    """Return the hours that a rater needs for this many items, with the guide and the practice items."""
    repeats = study_protocol.load_protocol(study.protocol).repeats
    return (progress.PREPARATION_MINUTES + items * (1 + repeats) * minutes_per_item) / 60


def get_minutes_per_item(study: Study) -> int:
    return progress.MINUTES_PER_ITEM[study.kind == TRANSITION]


def resize_document(study: Study, classes: ItemClasses, per_item: int, raters: int, cast: str) -> dict[str, Any]:
    """Return the draft's document with these numbers of items (imported ones included), ratings per item and raters.

    The casts of each class keep their shares; a class without a source gets the casts of the originals, or `cast`. Raises
    StudyError if there are more imported items of a class than items.
    """
    protocol = study_protocol.load_protocol(study.protocol)
    sources = []
    for perturbation, wanted, imported in zip(PERTURBATIONS, classes, count_imported(study), strict=True):
        if imported > wanted:
            kind = "without a planted error" if perturbation == "none" else f"with {perturbation} errors"
            raise StudyError(f"{format_count(imported, 'item')} {kind} imported into the draft; the plan has {wanted}")
        weights = {one.cast: one.count for one in protocol.sources if one.perturbation == perturbation}
        weights = (
            weights or {one.cast: one.count for one in protocol.sources if one.perturbation == "none"} or {cast: 1}
        )
        counts = _divide(wanted - imported, weights)
        sources += [{"cast": name, "perturbation": perturbation, "count": n} for name, n in counts.items() if n]
    return {**study.protocol, "sources": sources, "ratings_per_item": per_item, "raters": raters}


def _divide(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Return whole numbers with this sum in proportion to the weights, by largest remainders."""
    exact = {name: total * weight / sum(weights.values()) for name, weight in weights.items()}
    counts = {name: int(share) for name, share in exact.items()}
    by_remainder: Sequence[str] = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts
