"""Build an archive: load or compute the analysis, and write every file from one state of the study."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from ratings.exchange.archive import contents, orders, writing
from ratings.exchange.archive.entries import Entry
from ratings.exchange.archive.writing import Tell
from ratings.models import Analysis, Study
from ratings.results.analyses import form, store
from ratings.results.analyses.filters import Filters

_TRIES = 3
# What the numerical code raises on data it cannot handle. Anything else is a bug and must surface as one.
_FAULTS = (ValueError, ArithmeticError, LookupError, TypeError, store.MovingError)


class ExportError(RuntimeError):
    """The archive was not created. The message explains why and what to do."""


class Made(NamedTuple):
    """The number of files in an archive, and the state of the study that it shows (see `compute_state`)."""

    files: int
    state: str


def zipped(study: Study, blinded: bool, file: IO[bytes], tell: Tell = form.silent) -> Made:
    """Write the archive as a zip into this seekable file.

    Raises StudyError for a draft, SealedError for an unblinded archive before the study is unblinded, and ExportError if
    the analysis cannot be computed or the study keeps changing.
    """

    def once(study: Study, every: list[Entry]) -> int:
        file.seek(0)
        # a second try starts over: the first may have been longer
        file.truncate()
        zip_file, open_file = writing.into_zip(file)
        with zip_file:
            return writing.write(study, blinded, every, open_file, tell)

    return _settled(study, blinded, once, tell)


def unpacked(study: Study, blinded: bool, folder: Path, tell: Tell = form.silent) -> Made:
    """Write the same files into a folder, which appears once all of them are written. Raises the errors of `build_zip`.

    Raises ExportError if the path exists and is not an empty folder.
    """
    _refuse_taken(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # In the parent folder, hence on the same file system: the rename at the end is atomic.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        incomplete = Path(temporary) / "made"

        def once(study: Study, every: list[Entry]) -> int:
            shutil.rmtree(incomplete, ignore_errors=True)
            incomplete.mkdir()
            return writing.write(study, blinded, every, writing.into_folder(incomplete), tell)

        built = _settled(study, blinded, once, tell)
        if folder.is_dir():
            # fails if somebody has put a file there since the check above; then nothing of theirs is lost
            folder.rmdir()
        incomplete.rename(folder)
    return built


def _refuse_taken(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(
            f"{folder} already exists and is not an empty folder. Choose a new folder, or a file name ending in .zip."
        )


def _settled(study: Study, blinded: bool, once: Callable[[Study, list[Entry]], int], tell: Tell) -> Made:
    """Repeat writing until the study's state is the same before and after."""
    for _ in range(_TRIES):
        # read again: the object may be older than the change that made the last try fail
        study = Study.objects.get(pk=study.pk)
        orders.refuse(study, blinded)
        state = orders.state(study)
        n_files = once(study, contents.blinded(study) if blinded else contents.unblinded(study, _analysed(study, tell)))
        if orders.state(study) == state:
            return Made(n_files, state)
    raise ExportError(
        f"{study.name} changed during each try, because ratings are being submitted. Pause the study, or try again at a quieter time."
    )


def _analysed(study: Study, tell: Tell) -> Analysis:
    """Return the stored analysis of the current ratings; compute it if it is missing."""
    try:
        return store.compute(study, Filters(), tell)
    except _FAULTS as error:
        raise ExportError(
            f"The analysis of {study.name} could not be computed, so no archive with results was created: "
            f"{str(error)[:300] or type(error).__name__}. Try again; the blinded archive needs no analysis."
        ) from error
