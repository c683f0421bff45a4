"""Imported items as candidates of their study."""

from collections.abc import Iterable

from ratings.blinding import pair_digest, payload_digest
from ratings.models import ImportedItem, Study
from ratings.protocol import CandidateItem
from ratings.protocol.planning import Candidate


def list_imported_candidates(study: Study) -> list[CandidateItem]:
    """Return every item that was imported into the study, in the order of the file. All of them are requested."""
    # The record is the full line of the file, which nothing here reads.
    return build_candidates(study.imported_items.defer("record"))


def build_candidates(rows: Iterable[ImportedItem]) -> list[CandidateItem]:
    return [_build_candidate(row) for row in rows]


def _build_candidate(row: ImportedItem) -> CandidateItem:
    source = (row.label, row.perturbation)
    candidate = Candidate(
        f"imported/{row.key}", source, _compute_pair(row), row.payload_sha256, row.experiment, row.action
    )
    origin = {
        "imported_id": row.pk,
        "truth": row.truth,
        "reference": row.reference,
        "target": row.target,
        "verdicts": row.verdicts,
    }
    return CandidateItem(candidate, row.payload, row.context, origin)


def _compute_pair(row: ImportedItem) -> str:
    """Return the pair that the file states, else the digest that the pool uses."""
    if row.pair:
        return payload_digest({"imported pair": row.pair})
    # As in the pool: all outcomes of one action on the same materials are versions of one thing.
    return pair_digest(row.payload)
