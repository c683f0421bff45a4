"""Items from elsewhere as candidates of their study."""

from collections.abc import Iterable

from ratings.blinding import pair_digest, payload_digest
from ratings.models import ImportedItem, Study
from ratings.protocol import Found
from ratings.protocol.planning import Candidate


def found(study: Study) -> list[Found]:
    """Every item that was imported into the study, in the order of the file. All of them are wanted."""
    return candidates(study.imported_items.defer("record"))


def candidates(rows: Iterable[ImportedItem]) -> list[Found]:
    return [_found(row) for row in rows]


def _found(row: ImportedItem) -> Found:
    source = (row.label, row.perturbation)
    candidate = Candidate(f"imported/{row.key}", source, _pair(row), row.payload_sha256, row.experiment, row.action)
    origin = {
        "imported_id": row.pk,
        "truth": row.truth,
        "reference": row.reference,
        "target": row.target,
        "verdicts": row.verdicts,
    }
    return Found(candidate, row.payload, row.context, origin)


def _pair(row: ImportedItem) -> str:
    """As the file says; else versions of one thing are all outcomes of one action on the same materials, as in the pool."""
    if row.pair:
        return payload_digest({"imported pair": row.pair})
    return pair_digest(row.payload)
