"""Making an archive: the analysis found or computed, every entry written, and all of it of one state of the study."""

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
_FAULTS = (ValueError, ArithmeticError, LookupError, TypeError, store.MovingError)


class ExportError(RuntimeError):
    """No archive was made; the message says why and what to do, for people."""


class Made(NamedTuple):
    """How many files an archive holds, and which state of the study (`orders.state`)."""

    files: int
    state: str


def zipped(study: Study, blinded: bool, file: IO[bytes], tell: Tell = form.silent) -> Made:
    """The archive as a zip into this file, which can be sought in.

    StudyError for a draft, SealedError if `blinded` is not asked for before the study is unblinded, ExportError where
    the analysis cannot be computed or the study does not keep still.
    """

    def once(study: Study, every: list[Entry]) -> int:
        file.seek(0)
        file.truncate()
        archive, opened = writing.into_zip(file)
        with archive:
            return writing.write(study, blinded, every, opened, tell)

    return _settled(study, blinded, once, tell)


def unpacked(study: Study, blinded: bool, folder: Path, tell: Tell = form.silent) -> Made:
    """The same files in a folder, which appears when all of them are written. Errors as for `zipped`.

    ExportError if there is anything at this place but an empty folder.
    """
    _refuse_taken(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as near:
        made = Path(near) / "made"

        def once(study: Study, every: list[Entry]) -> int:
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            return writing.write(study, blinded, every, writing.into_folder(made), tell)

        found = _settled(study, blinded, once, tell)
        if folder.is_dir():
            folder.rmdir()
        made.rename(folder)
    return found


def _refuse_taken(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(
            f"{folder} is there already and not an empty folder: name a new one, or a file ending in .zip."
        )


def _settled(study: Study, blinded: bool, once: Callable[[Study, list[Entry]], int], tell: Tell) -> Made:
    """Writes until the study was the same before and after."""
    for _ in range(_TRIES):
        study = Study.objects.get(pk=study.pk)
        orders.refuse(study, blinded)
        before = orders.state(study)
        count = once(study, contents.blinded(study) if blinded else contents.unblinded(study, _analysed(study, tell)))
        if orders.state(study) == before:
            return Made(count, before)
    raise ExportError(
        f"{study.name} changed each time it was written: ratings come in. Pause the study, or try again at a quieter time."
    )


def _analysed(study: Study, tell: Tell) -> Analysis:
    """The stored analysis of the ratings as they are; computed here if it is missing."""
    try:
        return store.compute(study, Filters(), tell)
    except _FAULTS as error:
        raise ExportError(
            f"The analysis of {study.name} could not be computed, so there is no archive with results: "
            f"{str(error)[:300] or type(error).__name__}. Try again; the blinded archive needs no analysis."
        ) from error
