"""Files that were checked and wait for a yes: kept beside the database for an hour, for the one who sent them."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.core import signing

KEPT_SECONDS = 3600
_CHUNK = 1 << 16
_SALT = "ratings.uploads"  # stays when this module moves: tokens in open pages must go on working


class UploadGone(ValueError):  # noqa: N818  # a state the sender is told about
    """The file is not there any more, or never was this sender's."""


def keep(stream: BinaryIO, owner: str) -> str:
    """Keep the file from its beginning; the token opens it again, for this owner alone."""
    directory = _directory()
    _sweep(directory)
    name = secrets.token_hex(16)
    stream.seek(0)
    with (directory / name).open("xb") as kept:
        (directory / name).chmod(0o600)
        while chunk := stream.read(_CHUNK):
            kept.write(chunk)
    return signing.dumps([name, owner], salt=_SALT)


@contextmanager
def opened(token: str, owner: str) -> Iterator[BinaryIO]:
    """The file behind the token. UploadGone if it is too old, or somebody else's."""
    try:
        name, its_owner = signing.loads(token, salt=_SALT, max_age=KEPT_SECONDS)
        if its_owner != owner:
            raise UploadGone
        stream = (_directory() / name).open("rb")  # entered below, outside the handlers
    except (signing.BadSignature, OSError) as error:
        raise UploadGone from error
    with stream:
        yield stream


def forget(token: str) -> None:
    with suppress(signing.BadSignature, OSError):
        name, _ = signing.loads(token, salt=_SALT)
        (_directory() / name).unlink()


def _directory() -> Path:
    directory = Path(settings.VAR_DIR) / "uploads"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _sweep(directory: Path) -> None:
    """What nobody came back for goes."""
    for path in directory.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()
