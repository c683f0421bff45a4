"""Checked files that await confirmation. They are stored on disk for an hour and only their sender can use them."""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.core import signing

MAX_AGE_SECONDS = 3600
_CHUNK_SIZE = 1 << 16
_SIGNING_SALT = "ratings.uploads"  # do not change it when this module moves: tokens in open pages must remain valid


class UploadGone(ValueError):  # noqa: N818  # an expected state, shown to the sender
    """The file was deleted, or it belongs to somebody else."""


def store_upload(stream: BinaryIO, owner: str) -> str:
    """Store the file and return a token with which only this owner can open it."""
    directory = _get_directory()
    _delete_old_uploads(directory)
    name = secrets.token_hex(16)
    stream.seek(0)
    with (directory / name).open("xb") as target:
        # the items of a study must not be readable for other accounts of the machine
        (directory / name).chmod(0o600)
        while chunk := stream.read(_CHUNK_SIZE):
            target.write(chunk)
    return signing.dumps([name, owner], salt=_SIGNING_SALT)


@contextmanager
def open_upload(token: str, owner: str) -> Iterator[BinaryIO]:
    """Open the file of the token. Raises UploadGone if it is too old or belongs to somebody else."""
    try:
        name, stored_owner = signing.loads(token, salt=_SIGNING_SALT, max_age=MAX_AGE_SECONDS)
        if stored_owner != owner:
            raise UploadGone
        stream = (_get_directory() / name).open(
            "rb"
        )  # entered below, so that errors of the caller are not reported as UploadGone
    except (signing.BadSignature, OSError) as error:
        raise UploadGone from error
    with stream:
        yield stream


def delete_upload(token: str) -> None:
    with suppress(signing.BadSignature, OSError):
        name, _ = signing.loads(token, salt=_SIGNING_SALT)
        (_get_directory() / name).unlink()


def _get_directory() -> Path:
    directory = Path(settings.VAR_DIR) / "uploads"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _delete_old_uploads(directory: Path) -> None:
    """Delete files that were not confirmed in time."""
    for path in directory.iterdir():
        with suppress(OSError):
            # another request may delete the same file; the suppressed error is harmless
            if time.time() - path.stat().st_mtime > MAX_AGE_SECONDS:
                path.unlink()
