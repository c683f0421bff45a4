"""How a study was made and carried out, in numbers: what its methods say. Nothing here reads where an item came from."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count, Q

from ratings.exchange.archive.people import who
from ratings.models import Assignment, PracticeAnswer, Rating, Study
from ratings.protocol import StudyProtocol, protocols
from ratings.results.analyses import form
from ratings.studies.progress import stopping
from ratings.studies.progress.stopping import Stop


class Spread(NamedTuple):
    """The least, the middle and the most of some counts."""

    least: int
    middle: float
    most: int

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> "Spread":
        """Of how often each count occurs; all 0 of none."""
        values = sorted(counts)
        every = sum(counts.values())
        if not every:
            return cls(0, 0, 0)
        return cls(
            values[0], (_nth(counts, values, (every - 1) // 2) + _nth(counts, values, every // 2)) / 2, values[-1]
        )


def _nth(counts: Mapping[int, int], values: list[int], n: int) -> int:
    for value in values:
        n -= counts[value]
        if n < 0:
            return value
    raise IndexError(n)


@dataclass(frozen=True)
class Design:
    """`raters`: who gave ratings that count, by person, simulated, imported. `left_out`: ratings that count nowhere."""

    protocol: StudyProtocol
    items: int
    imported_items: int
    ratings: int
    per_item: Spread
    raters: Mapping[str, int]
    withdrawn: int
    dropped: int
    left_out: Mapping[str, int]
    cannot_judge: int
    repeats: int
    practised: int  # people who answered a practice item
    arms: Mapping[str, Mapping[str, float]]
    guides: int
    looks: int
    stop: Stop


def of(study: Study) -> Design:
    """Read in a dozen queries, whatever the study's size."""
    kept = Rating.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)
    place = "assignment__"
    first = Q(assignment__occasion=1)
    live = first & Q(assignment__released_at__isnull=True, assignment__surplus=False)
    numbers = kept.order_by().aggregate(
        ratings=Count("pk", filter=live),
        cannot_judge=Count("pk", filter=live & Q(cannot_judge=True)),
        repeats=Count("pk", filter=Q(assignment__occasion=2, assignment__released_at__isnull=True)),
        surplus=Count("pk", filter=first & Q(assignment__surplus=True)),
        released=Count("pk", filter=first & Q(assignment__released_at__isnull=False, assignment__surplus=False)),
    )
    items = study.items.count()
    rated = Counter(
        kept.filter(live).order_by().values_list(f"{place}item").annotate(n=Count("pk")).values_list("n", flat=True)
    )
    rated[0] += items - rated.total()
    seats = {rater.pk: rater for rater in study.raters.all()}
    gave = set(kept.filter(live).order_by().values_list(f"{place}rater", flat=True).distinct())
    dropped = [seat for seat in seats.values() if seat.dropped]
    lost = Rating.objects.filter(assignment__rater__in=[seat.pk for seat in dropped]).count()
    return Design(
        protocol=protocols.stored(study.protocol),
        items=items,
        imported_items=study.imported_items.count(),
        ratings=numbers["ratings"],
        per_item=Spread.of({n: count for n, count in rated.items() if count}),
        raters=Counter(who(seats[pk]) for pk in gave),
        withdrawn=sum(seat.withdrawn_at is not None for seat in seats.values()),
        dropped=len(dropped),
        left_out={
            "answered after the place had gone to another rater": numbers["surplus"],
            "of places that were taken back": numbers["released"],
            "of raters who withdrew and whose ratings the protocol drops": lost,
        },
        cannot_judge=numbers["cannot_judge"],
        repeats=numbers["repeats"],
        practised=PracticeAnswer.objects.filter(rater__study=study).values("rater").distinct().count(),
        arms=dict(_arms(study)),
        guides=study.guide_version,
        looks=study.events.filter(kind="looked").count(),
        stop=stopping.look(study),
    )


def _arms(study: Study) -> Iterator[tuple[str, dict[str, float]]]:
    """The display arms of the work that was dealt out, with their shares."""
    places = Assignment.objects.filter(item__study=study, released_at__isnull=True, rater__imported_as="").order_by()
    for name, field in (("layout", "layout"), ("goal and earlier steps shown", "with_context"), ("marks", "marks")):
        counts: Counter[Any] = Counter(dict(places.values_list(field).annotate(n=Count("pk"))))
        if counts:
            yield name, {_word(arm): n / counts.total() for arm, n in sorted(counts.items())}


def _word(arm: str | bool) -> str:
    return arm.replace("_", " ") if isinstance(arm, str) else "yes" if arm else "no"


def certificate(study: Study, blinded: bool) -> dict[str, Any] | None:
    """The last blinding audit as it was found; None if there was none.

    Blinded without what was measured and what a leak is: how exactly codes and positions go with the truth, beside the
    codes themselves, tells the truth of a small study. So would the digest of it, to whoever tries every truth; that of
    what is shown is given instead.
    """
    audit = study.audits.first()
    if audit is None:
        return None
    about = {"study": study.slug, "audited_at": audit.at.isoformat(), "passed": audit.passed}
    if not blinded:
        return {**about, "sha256": audit.sha256, "report": audit.report}
    report = _unmeasured(audit.report)
    return {**about, "sha256": form.digest(report), "withheld": _WITHHELD, "report": report}


_WITHHELD = (
    "What was measured, known tells and what each leak is are told when the study is unblinded; the SHA-256 is that of "
    "the report as it stands here."
)
_LEAK = "it is named when the study is unblinded"
_OF_REPORT = (
    "version",
    "study",
    "copied_at",
    "at",
    "passed",
    "not_decided",
    "items",
    "raters",
    "assignments",
    "other_studies",
    "declared_things",
)
_OF_CHECK = ("name", "asks", "outcome", "passed", "looked_at", "skipped", "power", "leaks_in_all")


def _unmeasured(report: Mapping[str, Any]) -> dict[str, Any]:
    """What is known to be without numbers by truth, and where leaks are; a report of another version may have more."""
    checks = [{**_some(check, _OF_CHECK), **_places(check), "measured": {}} for check in report.get("checks", ())]
    return {**_some(report, _OF_REPORT), **_places(report), "known_tells": [], "checks": checks}


def _some(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: found[name] for name in names if name in found}


def _places(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"leaks": [{"where": leak["where"], "what": _LEAK} for leak in found.get("leaks", ())]}
