"""The scopes of tokens: a closed list. A scope narrows what the token's user may read and never adds to it."""

from collections.abc import Mapping

SCOPE_DESCRIPTIONS: Mapping[str, str] = {
    "studies:read": "studies in which you have a role, with their protocols and progress",
    "items:blinded": "items under their random codes; after unblinding also what raters saw of them",
    "items:unblinded": "sources of items and ratings after unblinding",
    "ratings:read": "ratings; their sources only together with items:unblinded",
    "statistics:read": "the analysis of unblinded studies",
    "episodes:read": "episodes of the laboratory (staff only)",
    "transcripts:read": "transcripts of episodes: actions and outcomes, without prompts and replies (staff only)",
}
LABORATORY_SCOPES = frozenset({"episodes:read", "transcripts:read"})
