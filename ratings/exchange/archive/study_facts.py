"""Facts and numbers on how a study was designed and carried out, for its methods section. Nothing here reads the sources of items."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.db.models import Count, Q

from ratings.exchange.archive.study_files import get_rater_group
from ratings.models import Assignment, PracticeAnswer, Rating, Study
from ratings.protocol import StudyProtocol, study_protocol
from ratings.results.analyses import store
from ratings.studies import progress
from ratings.studies.progress import StopStatus


class CountRange(NamedTuple):
    """The smallest, the median and the largest value of a set of counts."""

    least: int
    middle: float
    most: int

    @classmethod
    def from_frequencies(cls, frequencies: Mapping[int, int]) -> "CountRange":
        """Return the range of the counts, given the frequency of each; zeros if there are none."""
        counts = sorted(Counter(frequencies).elements())
        return cls(counts[0], statistics.median(counts), counts[-1]) if counts else cls(0, 0, 0)


class StudyFacts(NamedTuple):
    """What the methods report. `raters`: numbers with ratings that count, by group. `left_out`: ratings, by reason."""

    protocol: StudyProtocol
    items: int
    imported_items: int
    ratings: int
    per_item: CountRange
    raters: Mapping[str, int]
    withdrawn: int
    left_out: Mapping[str, int]
    cannot_judge: int
    repeats: int
    practised: int  # people who answered a practice item
    arms: Mapping[str, Mapping[str, float]]
    guides: int
    looks: int
    stop: StopStatus


def collect_study_facts(study: Study) -> StudyFacts:
    """Return the facts of a study. The number of queries, about a dozen, does not depend on the study's size."""
    stored_ratings = Rating.objects.filter(assignment__item__study=study, assignment__rater__dropped=False).order_by()
    first = Q(assignment__occasion=1)
    counted = first & Q(assignment__released_at__isnull=True, assignment__surplus=False)
    totals = stored_ratings.aggregate(
        ratings=Count("pk", filter=counted),
        cannot_judge=Count("pk", filter=counted & Q(cannot_judge=True)),
        repeats=Count("pk", filter=Q(assignment__occasion=2, assignment__released_at__isnull=True)),
        surplus=Count("pk", filter=first & Q(assignment__surplus=True)),
        released=Count("pk", filter=first & Q(assignment__released_at__isnull=False, assignment__surplus=False)),
    )
    n_items, counted_ratings = study.items.count(), stored_ratings.filter(counted)
    per_item = counted_ratings.values_list("assignment__item").annotate(n=Count("pk"))
    n_by_ratings = Counter(per_item.values_list("n", flat=True))
    n_by_ratings[0] += n_items - n_by_ratings.total()  # items without ratings have no row in the query
    raters = {rater.pk: rater for rater in study.raters.all()}
    rater_ids = set(counted_ratings.values_list("assignment__rater", flat=True).distinct())
    # Counted separately, because the other totals leave dropped raters out.
    n_dropped = Rating.objects.filter(
        assignment__rater__in=[pk for pk, rater in raters.items() if rater.dropped]
    ).count()
    return StudyFacts(
        protocol=study_protocol.load_protocol(study.protocol),
        items=n_items,
        imported_items=study.imported_items.count(),
        ratings=totals["ratings"],
        per_item=CountRange.from_frequencies(n_by_ratings),
        raters=Counter(get_rater_group(raters[pk]) for pk in rater_ids),
        withdrawn=sum(rater.withdrawn_at is not None for rater in raters.values()),
        left_out={
            "submitted after the item had been reassigned to another rater": totals["surplus"],
            "of reassigned items": totals["released"],
            "of raters who withdrew and whose ratings are dropped under the protocol": n_dropped,
        },
        cannot_judge=totals["cannot_judge"],
        repeats=totals["repeats"],
        practised=PracticeAnswer.objects.filter(rater__study=study).values("rater").distinct().count(),
        arms=dict(_iter_display_arms(study)),
        guides=study.guide_version,
        looks=study.events.filter(kind="looked").count(),
        stop=progress.evaluate_stop_rule(study),
    )


def _iter_display_arms(study: Study) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the name of each display option with the share of assignments in each of its arms."""
    assigned = Assignment.objects.filter(item__study=study, released_at__isnull=True, rater__imported_as="").order_by()
    for name, field in (("layout", "layout"), ("goal and earlier steps shown", "with_context"), ("marks", "marks")):
        counts: Counter[Any] = Counter(dict(assigned.values_list(field).annotate(n=Count("pk"))))
        if counts:
            words = {arm: arm.replace("_", " ") if isinstance(arm, str) else "yes" if arm else "no" for arm in counts}
            yield name, {words[arm]: n / counts.total() for arm, n in sorted(counts.items())}


def get_blinding_certificate(study: Study, blinded: bool) -> dict[str, Any] | None:
    """Return the last blinding audit, or None; before unblinding without measurements and the nature of leaks."""
    audit = study.audits.first()
    if audit is None:
        return None
    summary = {"study": study.slug, "audited_at": audit.at.isoformat(), "passed": audit.passed}
    if not blinded:
        return {**summary, "sha256": audit.sha256, "report": audit.report}
    # In a small study, the codes and how strongly they correlate with the truth would together reveal the truth. So
    # would the digest of the full report, to anyone who tries every possible truth. Therefore the digest given here
    # is that of the reduced report.
    # Only what is safe: no number that depends on the truth, and leaks by location only.
    all_checks = audit.report.get("checks", ())
    checks = [{**_keep_safe(check, _SAFE_CHECK_KEYS), "measured": {}} for check in all_checks]
    report = {**_keep_safe(audit.report, _SAFE_REPORT_KEYS), "known_tells": [], "checks": checks}
    return {**summary, "sha256": store.hash_document(report), "withheld": _WITHHELD_NOTICE, "report": report}


_WITHHELD_NOTICE = (
    "Measurements, known tells and the nature of each leak are withheld until the study is unblinded; the SHA-256 is that "
    "of the report in this file."
)
_HIDDEN_LEAK = "described once the study is unblinded"
# An allow-list: a key that a later version of the report adds is withheld until somebody decides that it is safe.
_SAFE_REPORT_KEYS = (
    "version", "study", "copied_at", "at", "passed", "not_decided", "items", "raters", "assignments", "other_studies",
    "declared_things",
)  # fmt: skip
_SAFE_CHECK_KEYS = ("name", "asks", "outcome", "passed", "looked_at", "skipped", "power", "leaks_in_all")


def _keep_safe(document: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the named entries of a report or check, and its leaks by location only."""
    leaks = [{"where": leak["where"], "what": _HIDDEN_LEAK} for leak in document.get("leaks", ())]
    return {**{name: document[name] for name in names if name in document}, "leaks": leaks}
