"""The format of an analysis document: its version, its bytes, and the library versions it was computed with.

This module is separate from `document`, which computes the document, because importing scipy takes more than a second and
100 MB, and most processes do not compute documents.
"""

import hashlib
import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

# Increase the version with every change of what is computed or how it is written. Documents of other versions are not shown.
VERSION = 8
STEPS = 5  # steps of the progress bar while a document is computed
# The libraries whose version can change a number.
LIBRARIES = ("numpy", "scipy")

ReportProgress = Callable[[int, int, str], None]


def ignore_progress(step: int, total: int, message: str) -> None:
    """Do nothing: the default for computations whose progress is not shown."""


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the numerical libraries."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def encode_document(document: Any) -> bytes:
    """Return the bytes of the document that are hashed and sent: JSON with sorted keys, without NaN or infinity."""
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def hash_document(document: Any) -> str:
    return hashlib.sha256(encode_document(document)).hexdigest()
