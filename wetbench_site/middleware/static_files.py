"""CSS, scripts and pictures: collected when the server starts, compressed, and cached for years under names with a digest."""

import fcntl
import logging
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

from wetbench_site.text import hash_text

log = logging.getLogger(__name__)


class HashedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # the library has no types
    """The library's storage, except that files have their plain names as long as nothing has been collected."""

    # A file that is not in the manifest is a mistake in a template: tests without a manifest would not find it.
    def stored_name(self, name: str) -> str:
        return str(super().stored_name(name)) if self.hashed_files else name


def collect_if_changed() -> None:
    """Copy all files to STATIC_ROOT under names with their digest, compressed, unless they are there already.

    Files of earlier releases stay, because pages that are still open request them. If the folder cannot be written, the
    site works with plain names and without compression.
    """
    root = Path(settings.STATIC_ROOT)
    record, state = root.with_name(f"{root.name}.collected"), _describe_sources()
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # several workers start at once; the first one collects
            file.seek(0)
            if file.read() != state:
                call_command("collectstatic", interactive=False, verbosity=0)
                file.truncate(0)
                file.write(state)
    except OSError as error:
        log.warning("static files are served uncompressed, because they cannot be collected: %s", error)


def _describe_sources() -> str:
    """Return a digest of the paths, sizes and times of all files. It takes a hundredth of a second."""
    sources = []
    for finder in get_finders():
        for path, storage in finder.list(None):
            stat = Path(storage.path(path)).stat()
            sources.append((path, stat.st_size, stat.st_mtime_ns))
    return hash_text(repr(sorted(sources)))
