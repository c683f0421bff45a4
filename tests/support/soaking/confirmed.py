"""What raters were told against what the database holds: each confirmed answer there once, nothing nobody sent."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tests.support.soaking.journal import CONFIRMED, Entry

# In the order of writing.
EVENTS = """
    select e.submission_id, a.code, e.revision, e.verdict, e.confidence from ratings_ratingevent e
    join ratings_assignment a on a.id = e.assignment_id order by e.id"""
RATINGS = """
    select r.submission_id, a.code, r.revision, r.verdict, r.confidence from ratings_rating r
    join ratings_assignment a on a.id = r.assignment_id"""


class Row(NamedTuple):
    """A version of an answer, or the answer that stands."""

    submission: str
    place: str
    revision: int
    verdict: bool | None
    confidence: int | None


Query = Callable[[str], Sequence[Sequence[Any]]]


def rows(query: Query, sql: str) -> list[Row]:
    """Ids as PostgreSQL writes them; SQLite leaves out the hyphens."""
    return [Row(str(UUID(str(s))), str(UUID(str(p))), *rest) for s, p, *rest in query(sql)]


def wrong(entries: Sequence[Entry], events: Sequence[Row], ratings: Sequence[Row]) -> dict[str, list[str]]:
    """What is wrong -> the submissions or places that show it; empty when all is well."""
    sent = {entry.submission: entry for entry in entries if entry.state != CONFIRMED}
    confirmed = {entry.submission: entry for entry in entries if entry.state == CONFIRMED}
    found: dict[str, list[str]] = {
        "a confirmed answer is not in the database": sorted(confirmed.keys() - {e.submission for e in events}),
        "an answer is in the database more than once": _twice(event.submission for event in events),
        "the database says other than was sent": [e.submission for e in events if _altered(e, sent)],
        "an answer is in the database that nobody sent": [e.submission for e in events if e.submission not in sent],
        "an answer was sent and never confirmed": sorted(sent.keys() - confirmed.keys()),
        **_standing(events, ratings),
    }
    return {name: shown for name, shown in found.items() if shown}


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _altered(event: Row, sent: dict[str, Entry]) -> bool:
    asked = sent.get(event.submission)
    return asked is not None and asked[1:] != (event.place, event.submission, event.verdict, event.confidence)


def _standing(events: Sequence[Row], ratings: Sequence[Row]) -> dict[str, list[str]]:
    versions: dict[str, list[Row]] = defaultdict(list)
    for event in events:
        versions[event.place].append(event)
    standing = {rating.place: rating for rating in ratings}
    return {
        "a place has more than one rating": _twice(rating.place for rating in ratings),
        "a rating has no version, or a version no rating": sorted(versions.keys() ^ standing.keys()),
        "the rating is not its last version": [
            p for p, r in standing.items() if p in versions and versions[p][-1] != r
        ],
        "versions are not 1 to n": [
            place for place, own in versions.items() if [v.revision for v in own] != list(range(1, len(own) + 1))
        ],
    }
