"""Build what a rater may see of an item, from an allow-list.

`allow_list` converts a record to a payload and omits everything that is not listed. The other modules arrange a
payload for the screen, define the keys of its rows for marking, and find names of sources in texts. No function
receives the source of an item.

May import: simulation.lab.

Without Django.
"""

from ratings.blinding.allow_list import (
    Payload,
    blind_context,
    blind_evidence,
    blind_transition,
    pair_digest,
    payload_digest,
)

__all__ = ["Payload", "blind_context", "blind_evidence", "blind_transition", "pair_digest", "payload_digest"]
