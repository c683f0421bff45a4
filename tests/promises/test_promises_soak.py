"""The checks of the soak test find nothing in a correct history, and name whatever is lost or doubled."""

from collections import Counter
from typing import Any

import pytest

from tests.support.soaking import answer_checks, report
from tests.support.soaking.answer_checks import StoredAnswer
from tests.support.soaking.answer_log import CONFIRMED, SENT, AnswerLog, LogEntry
from tests.support.soaking.rater import RaterCounts

# Assignment a: answered yes 4 (s1), corrected to yes 5 (s2). Assignment b: no 2 (s3).
EVENTS = (
    StoredAnswer("s1", "a", 1, True, 4),
    StoredAnswer("s2", "a", 2, True, 5),
    StoredAnswer("s3", "b", 1, False, 2),
)
RATINGS = (EVENTS[1], EVENTS[2])
ANSWERS = [("a", "s1", True, 4), ("a", "s2", True, 5), ("b", "s3", False, 2)]


def build_log(*states: str) -> list[LogEntry]:
    return [LogEntry(state, *answer) for answer in ANSWERS for state in states]


def test_soak_check_accepts_a_history_without_losses() -> None:
    assert answer_checks.find_wrong_answers(build_log(SENT, CONFIRMED), EVENTS, RATINGS) == {}


def test_soak_check_reports_a_confirmed_answer_that_is_missing() -> None:
    """The negative control of the soak test."""
    violations = answer_checks.find_wrong_answers(build_log(SENT, CONFIRMED), EVENTS[:2], RATINGS[:1])
    assert violations == {"a confirmed answer is not in the database": ["s3"]}


@pytest.mark.parametrize(
    ("events", "ratings", "found"),
    [
        ((*EVENTS, EVENTS[2]), RATINGS, {"an answer is in the database more than once": ["s3"], "revisions are not numbered 1 to n": ["b"]}),
        ((*EVENTS, StoredAnswer("s4", "c", 1, True, 1)), (*RATINGS, StoredAnswer("s4", "c", 1, True, 1)),
         {"an answer is in the database that nobody sent": ["s4"]}),
        (EVENTS, RATINGS[:1], {"a rating has no revision, or a revision has no rating": ["b"]}),
        (EVENTS, (*RATINGS, RATINGS[0]), {"an assignment has more than one rating": ["a"]}),
        (EVENTS, (EVENTS[0], EVENTS[2]), {"the rating differs from its last revision": ["a"]}),
        ((EVENTS[0], EVENTS[1], EVENTS[2]._replace(confidence=3)), (EVENTS[1], EVENTS[2]._replace(confidence=3)),
         {"an answer in the database differs from what was sent": ["s3"]}),
    ],
)  # fmt: skip
def test_soak_check_reports_every_other_difference(events: Any, ratings: Any, found: dict[str, list[str]]) -> None:
    assert answer_checks.find_wrong_answers(build_log(SENT, CONFIRMED), events, ratings) == found


def test_soak_check_reports_an_answer_that_was_never_confirmed() -> None:
    entries = [*build_log(SENT), *build_log(CONFIRMED)[:2]]
    assert answer_checks.find_wrong_answers(entries, EVENTS, RATINGS) == {
        "an answer was sent and never confirmed": ["s3"]
    }


def test_soak_check_reports_visible_errors_and_500_but_not_outages() -> None:
    counts = RaterCounts(faults=Counter({"503": 3, "no answer (ConnectionResetError)": 2}))
    assert report.find_visible_errors(counts) == {}
    counts.faults["500"] += 1
    counts.errors["POST 403"] += 1
    assert report.find_visible_errors(counts) == {
        "a rater saw an error": {"POST 403": 1},
        "the web server answered 500": 1,
    }


def test_soak_answer_log_is_read_as_it_was_written(tmp_path: Any) -> None:
    answer_log = AnswerLog(tmp_path / "journal.jsonl")
    for entry in build_log(SENT, CONFIRMED):
        answer_log.append_entry(entry)
    assert list(answer_log.iter_entries()) == build_log(SENT, CONFIRMED)


def test_soak_report_begins_with_whether_anything_is_wrong() -> None:
    passed = report.build_report({"minutes": 1}, [], Counter({"web server killed": 2}), {"episodes": 3}, {})
    assert report.format_report(passed).startswith("# Nothing lost, nothing doubled")
    assert "- web server killed: 2" in report.format_report(passed)
    assert report.format_report({**passed, "wrong": {"lost": ["s1"]}}).startswith("# Something is wrong")
