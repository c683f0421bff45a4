"""Everything an analysis needs of a study, in one zip: ratings, their versions, what the columns mean, protocol, certificate."""

import json
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any

from django.contrib.auth.models import User
from django.db.models import Case, F, Q, Value, When

from ratings import exports, protocols
from ratings.codebook import MEANINGS
from ratings.models import Assignment, RatingEvent, Study

VERSION_COLUMNS = (
    "item", "rater", "occasion", "revision", "kind", "verdict", "confidence", "cannot_judge", "marked", "note",
    "active_seconds", "at",
)  # fmt: skip
_IN_MEMORY = 8 * 1024 * 1024


def certificate(study: Study) -> dict[str, Any] | None:
    """The last blinding audit as it was found; None if there was none."""
    audit = study.audits.first()
    if audit is None:
        return None
    found = {"audited_at": audit.at.isoformat(), "passed": audit.passed, "sha256": audit.sha256}
    return {"study": study.slug, **found, "report": audit.report}


def pack(study: Study, blinded: bool, by: User | None = None) -> IO[bytes]:
    """The zip, read from its beginning. SealedError as for the ratings alone; the export is logged."""
    ratings = exports.csv_lines(study, blinded, by)
    file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # whoever sends it closes it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        _write(archive, "ratings.csv", ratings)
        _write(archive, "versions.csv", exports.table_lines(VERSION_COLUMNS, _versions(study, blinded)))
        _write(archive, "codebook.csv", exports.table_lines(("column", "meaning"), MEANINGS.items()))
        _write(archive, "protocol.json", [_json(study.protocol)])
        _write(archive, "certificate.json", [_json(certificate(study))])
        _write(archive, "README.txt", _readme(study, blinded))
    file.seek(0)
    return file


def _write(archive: zipfile.ZipFile, name: str, lines: Iterable[str]) -> None:
    with archive.open(name, "w") as entry:
        for line in lines:
            entry.write(line.encode())


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _versions(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    """Every version of every answer, those of dropped raters left out; blinded, what `exports.rows` withholds is empty."""
    events = RatingEvent.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)
    place = "assignment__"
    item = F(f"{place}item__code")
    shown = {"code": Case(When(~Q(kind="imported"), then=item)), "said": Value("")}
    events = events.annotate(**shown if blinded else {"code": item, "said": F("note")})
    order = F("code").asc(nulls_last=True), f"{place}rater__number", f"{place}occasion", f"{place}position", "revision"
    found = events.order_by(*order).values_list(
        "code", f"{place}rater__label", f"{place}occasion", "revision", "kind", "verdict", "confidence",
        "cannot_judge", "marks", "said", "active_seconds", "at",
    )  # fmt: skip
    return iter(found.iterator(chunk_size=500))


def _readme(study: Study, blinded: bool) -> Iterator[str]:
    protocol = protocols.stored(study.protocol)
    prevalence = (
        "not known" if protocol.prevalence is None else f"{protocol.prevalence:.0%} of what its protocol asks for"
    )
    yield f"{study.name}\n\n{study.question}\n\n"
    yield f"State: {study.status}. {'The sealed columns are empty.' if blinded else 'Unblinded.'}\n"
    yield f"Items: {study.items.count()}, {study.ratings_per_item} ratings wanted of each.\n"
    yield f"Items with a planted error: {prevalence}.\n"
    for name, shares in _arms(study):
        yield f"{name}: {shares}.\n"
    yield "\nratings.csv has one row for each rating, versions.csv every version of each; codebook.csv says what the\n"
    yield "columns mean. certificate.json is the last blinding audit, or null if there was none.\n"


def _arms(study: Study) -> Iterator[tuple[str, str]]:
    """The display arms of the work that was dealt out, with their shares."""
    places = Assignment.objects.filter(item__study=study, released_at__isnull=True, rater__imported_as="")
    for name, field in (("Layouts", "layout"), ("Goal and earlier steps shown", "with_context"), ("Marks", "marks")):
        count = Counter(places.values_list(field, flat=True))
        if count:
            yield name, ", ".join(f"{_word(arm)} {n / count.total():.0%}" for arm, n in sorted(count.items()))


def _word(arm: str | bool) -> str:
    return arm if isinstance(arm, str) else "yes" if arm else "no"
