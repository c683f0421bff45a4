"""Rating rows for analyses, made by hand."""

import uuid
from datetime import UTC, datetime
from typing import Any

from ratings.results.rating_rows import RatingRow

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def build_rating_row(
    item: int, rater: str, verdict: bool | None, confidence: int | None = 3, **fields: Any
) -> RatingRow:
    """Return a rating, by default of an item of gpt-5 without a planted error."""
    defaults = {
        "item": uuid.UUID(int=item), "rater": rater, "number": int(rater[1:]), "simulated": False, "verdict": verdict,
        "confidence": None if verdict is None else confidence, "opened_at": NOW, "submitted_at": NOW, "seconds": 30.0, "position": item,
        "occasion": 1, "session": 1, "released_at": None, "surplus": False, "layout": "aligned", "layout_shown": "aligned", "context": False,
        "marks": "always", "marked": [], "first_verdict": None, "first_confidence": None, "revision": 1, "active_seconds": None,
        "first_verdict_seconds": None, "changes": 0, "hand": "", "viewport": "", "guide_version": 1, "interface_version": "",
        "imported": False, "note": "", "pair": uuid.UUID(int=1000 + item), "source": "gpt-5", "perturbation": "none", "truth": None,
        "reference": "unperturbed",
        "experiment": "caffeine", "action": "Transfer", "verdicts": {}, "target": [], "error_kind": None, "deviation": None,
    }  # fmt: skip
    return RatingRow(**{**defaults, **fields})
