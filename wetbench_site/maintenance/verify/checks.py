"""The type of a check and of its violations, and the loop that runs all checks."""

import string
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Model, Q, QuerySet

from wetbench_site.database import read_snapshot
from wetbench_site.text import describe_error

MAX_VIOLATIONS = 50  # violations of one check that are reported; further ones are only counted
CHUNK_ROWS = 2000  # rows fetched at a time, so that memory does not grow with the table
_ALL_ROWS = Q()


class Violation(NamedTuple):
    """A row that breaks a promise: its table and code, the expected value and the one that was found."""

    table: str
    code: str
    expected: str
    found: str


FindViolations = Callable[[], Iterator[Violation]]


class Check(NamedTuple):
    """One promise, the model whose rows it is about, and a function that yields the violations."""

    name: str
    promise: str
    model: type[Model]
    find_violations: FindViolations


class CheckResult(NamedTuple):
    """The result of a check: the number of rows, the first violations, and the number of further ones."""

    check: Check
    rows: int
    findings: tuple[Violation, ...]
    further_violations: int
    seconds: float


ReportProgress = Callable[[int, int, str], None]


def build_check(name: str, model: type[Model]) -> Callable[[FindViolations], Check]:
    """Return a decorator that turns a function that yields violations, with the promise as its docstring, into a check."""

    def build(find_violations: FindViolations) -> Check:
        promise = " ".join((find_violations.__doc__ or "").split()).removesuffix(".")
        return Check(name, promise[:1].lower() + promise[1:], model, find_violations)

    return build


def build_violation(model: type[Model], code: object, expected: object, found: object) -> Violation:
    return Violation(model._meta.db_table, str(code), _shorten_text(expected), _shorten_text(found))


def iter_rows(query: "QuerySet[Any, Any]") -> Iterator[Any]:
    """Yield the rows of a query in chunks."""
    return query.iterator(chunk_size=CHUNK_ROWS)


def report_rows(
    query: "QuerySet[Any, Any]", expected: str, found: str, code: str = "{code}", model: type[Model] | None = None
) -> Iterator[Violation]:
    """Yield a violation for each row of a query. The texts name its columns in braces, as in "slot {slot}".

    The violations are in the table of `model`, by default that of the query.
    """
    fields = [field for text in (code, expected, found) for _, field, _, _ in string.Formatter().parse(text) if field]
    for row in iter_rows(query.values(*dict.fromkeys(fields))):
        texts = (text.format_map(row) for text in (code, expected, found))
        yield build_violation(model or query.model, *texts)


def build_digest_check(
    name: str,
    promise: str,
    model: type[Model],
    columns: tuple[str, str, str],
    compute: Callable[[Any], str],
    where: Q = _ALL_ROWS,
) -> Check:
    """Return a check that stored contents match their digests. `columns` are those of the code, content and digest."""

    def find_changed_content() -> Iterator[Violation]:
        rows: Any = model._default_manager.filter(where).order_by("pk").values_list(*columns)
        for code, content, sha in iter_rows(rows):
            if (digest := compute(content)) != sha:
                yield build_violation(model, code, sha or "no digest", digest or "no digest")

    return Check(name, promise, model, find_changed_content)


def run_checks(checks: Iterable[Check], report: ReportProgress) -> Iterator[CheckResult]:
    """Run the checks on one snapshot of the database and yield their results."""
    all_checks = list(checks)
    with read_snapshot():
        for index, item in enumerate(all_checks):
            report(index, len(all_checks), item.name)
            yield _run_check(item)
    report(len(all_checks), len(all_checks), "")


def _run_check(item: Check) -> CheckResult:
    reported: list[Violation] = []
    started, further = time.monotonic(), 0
    for violation in _iter_violations(item):
        if len(reported) < MAX_VIOLATIONS:
            reported.append(violation)
        else:
            further += 1
    return CheckResult(item, _count_rows(item), tuple(reported), further, time.monotonic() - started)


def _iter_violations(item: Check) -> Iterator[Violation]:
    """Yield the violations. A check that raises is a violation itself and does not stop the other checks."""
    try:
        # A savepoint: on PostgreSQL a failed query would otherwise end the snapshot for all later checks.
        with transaction.atomic():
            yield from item.find_violations()
    except Exception as error:
        yield build_violation(item.model, "", "rows that can be read", f"an error: {describe_error(error)}")


def _count_rows(item: Check) -> int:
    try:
        with transaction.atomic():
            return item.model._default_manager.count()
    except Exception:  # its table is missing, which is a violation already
        return 0


def _shorten_text(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
