"""The form of an analysis document: its version, its bytes, what it was made with. What computes it is in document.

Apart from that, because scipy takes more than a second and 100 MB, and most processes compute nothing.
"""

import hashlib
import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

VERSION = (
    7  # raised with every change of what is computed or how it is written down: what was stored before is then stale
)
STEPS = 5  # in which it is made
LIBRARIES = ("numpy", "scipy")

Tell = Callable[[int, int, str], None]


def silent(step: int, of: int, said: str) -> None:
    """For those who do not watch."""


def made_with() -> dict[str, str]:
    """The versions of what computed it."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def canonical(document: Any) -> bytes:
    """The document's bytes as they are hashed and sent: keys in order, nothing that is no number."""
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def digest(document: Any) -> str:
    return hashlib.sha256(canonical(document)).hexdigest()
