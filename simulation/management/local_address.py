"""The address at which this machine serves the site. Commands print links to it, also when another port is served."""

import re
from contextlib import suppress
from pathlib import Path

from django.conf import settings

DEFAULT = "http://127.0.0.1:8000"
_ADDRESS = re.compile(r"http://[\w.:\[\]-]{1,100}")


def _get_path() -> Path:
    return Path(settings.VAR_DIR) / "address"


def store_address(host: str, port: int) -> str:
    """Record that the site is served here, and return its address. A site that starts later replaces the record."""
    address = f"http://{host}:{port}"
    # Links are a convenience: a full disk must not stop the start, and the default is used instead.
    with suppress(OSError):
        _get_path().write_text(f"{address}\n", encoding="ascii")
    return address


def read_address() -> str:
    """Return the address of the site that was started last, or the default if none was recorded."""
    try:
        text = _get_path().read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return DEFAULT
    return text if _ADDRESS.fullmatch(text) else DEFAULT
