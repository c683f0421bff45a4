"""Compare what raters were told was saved with the database: each confirmed answer is there once, and nothing that nobody sent."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tests.support.soaking.answer_log import CONFIRMED, LogEntry

# In the order in which they were written.
EVENTS = """
    select e.submission_id, a.code, e.revision, e.verdict, e.confidence from ratings_ratingevent e
    join ratings_assignment a on a.id = e.assignment_id order by e.id"""
RATINGS = """
    select r.submission_id, a.code, r.revision, r.verdict, r.confidence from ratings_rating r
    join ratings_assignment a on a.id = r.assignment_id"""


class StoredAnswer(NamedTuple):
    """A revision of an answer, or the current answer."""

    submission: str
    place: str
    revision: int
    verdict: bool | None
    confidence: int | None


Query = Callable[[str], Sequence[Sequence[Any]]]


def select_answers(query: Query, sql: str) -> list[StoredAnswer]:
    """Return the rows with ids as PostgreSQL formats them; SQLite leaves out the hyphens."""
    return [StoredAnswer(str(UUID(str(s))), str(UUID(str(p))), *rest) for s, p, *rest in query(sql)]


def find_wrong_answers(
    entries: Sequence[LogEntry], events: Sequence[StoredAnswer], ratings: Sequence[StoredAnswer]
) -> dict[str, list[str]]:
    """Return {violation: submissions or assignments that show it}, empty if there are none."""
    sent = {entry.submission: entry for entry in entries if entry.state != CONFIRMED}
    confirmed = {entry.submission: entry for entry in entries if entry.state == CONFIRMED}
    violations: dict[str, list[str]] = {
        "a confirmed answer is not in the database": sorted(confirmed.keys() - {e.submission for e in events}),
        "an answer is in the database more than once": _find_duplicates(event.submission for event in events),
        "an answer in the database differs from what was sent": [e.submission for e in events if _is_altered(e, sent)],
        "an answer is in the database that nobody sent": [e.submission for e in events if e.submission not in sent],
        "an answer was sent and never confirmed": sorted(sent.keys() - confirmed.keys()),
        **_compare_revisions(events, ratings),
    }
    return {name: examples for name, examples in violations.items() if examples}


def _find_duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _is_altered(event: StoredAnswer, sent: dict[str, LogEntry]) -> bool:
    entry = sent.get(event.submission)
    return entry is not None and entry[1:] != (event.place, event.submission, event.verdict, event.confidence)


def _compare_revisions(events: Sequence[StoredAnswer], ratings: Sequence[StoredAnswer]) -> dict[str, list[str]]:
    versions: dict[str, list[StoredAnswer]] = defaultdict(list)
    for event in events:
        versions[event.place].append(event)
    ratings_by_assignment = {rating.place: rating for rating in ratings}
    return {
        "an assignment has more than one rating": _find_duplicates(rating.place for rating in ratings),
        "a rating has no revision, or a revision has no rating": sorted(versions.keys() ^ ratings_by_assignment.keys()),
        "the rating differs from its last revision": [
            p for p, r in ratings_by_assignment.items() if p in versions and versions[p][-1] != r
        ],
        "revisions are not numbered 1 to n": [
            place
            for place, revisions in versions.items()
            if [v.revision for v in revisions] != list(range(1, len(revisions) + 1))
        ],
    }
