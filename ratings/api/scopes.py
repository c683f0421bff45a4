"""What a token can be allowed: a closed list. A scope narrows what its user may read; it never adds anything."""

from collections.abc import Mapping

SCOPES: Mapping[str, str] = {
    "studies:read": "the studies you have a role in, with their documents and how far they are",
    "items:blinded": "items under their random codes, and what raters saw of them once the study is unblinded",
    "items:unblinded": "where items and ratings came from, once the study is unblinded",
    "ratings:read": "ratings; without their sources unless items:unblinded is given too",
    "statistics:read": "the analysis of an unblinded study",
    "episodes:read": "episodes of the laboratory (staff only)",
    "transcripts:read": "their transcripts: actions and outcomes, no prompts, no replies (staff only)",
}
LABORATORY = frozenset({"episodes:read", "transcripts:read"})
