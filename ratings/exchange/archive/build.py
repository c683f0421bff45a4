"""Build an archive: load or compute the analysis, and write every file from one state of the study."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

from ratings.exchange.archive import archive_requests, contents, output
from ratings.exchange.archive.archive_files import ArchiveFile
from ratings.exchange.archive.output import ReportProgress
from ratings.models import Analysis, Study
from ratings.results.analyses import document_format, store
from ratings.results.analyses.filters import Filters

_MAX_TRIES = 3
# What the numerical code raises on data it cannot handle. Anything else is a bug and must surface as one.
_ANALYSIS_ERRORS = (ValueError, ArithmeticError, LookupError, TypeError, store.DataChangingError)


class ExportError(RuntimeError):
    """The archive was not created. The message explains why and what to do."""


class BuiltArchive(NamedTuple):
    """The number of files in an archive, and the state of the study that it shows (see `compute_state`)."""

    files: int
    state: str


def build_zip(
    study: Study, blinded: bool, file: IO[bytes], report_progress: ReportProgress = document_format.ignore_progress
) -> BuiltArchive:
    """Write the archive as a zip into this seekable file.

    Raises StudyError for a draft, SealedError for an unblinded archive before the study is unblinded, and ExportError if
    the analysis cannot be computed or the study keeps changing.
    """

    def write_once(study: Study, files: list[ArchiveFile]) -> int:
        file.seek(0)
        # a second try starts with an empty file, because the first may have written more bytes
        file.truncate()
        zip_file, open_file = output.open_zip(file)
        with zip_file:
            return output.write_archive(study, blinded, files, open_file, report_progress)

    return _build_consistently(study, blinded, write_once, report_progress)


def build_folder(
    study: Study, blinded: bool, folder: Path, report_progress: ReportProgress = document_format.ignore_progress
) -> BuiltArchive:
    """Write the archive as a folder, which appears once all its files are written. Raises the errors of `build_zip`.

    Raises ExportError if the path exists and is not an empty folder.
    """
    _check_folder_is_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # In the parent folder, hence on the same file system: the rename at the end is atomic.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        incomplete = Path(temporary) / "made"

        def write_once(study: Study, files: list[ArchiveFile]) -> int:
            shutil.rmtree(incomplete, ignore_errors=True)
            incomplete.mkdir()
            return output.write_archive(study, blinded, files, output.get_folder_opener(incomplete), report_progress)

        built = _build_consistently(study, blinded, write_once, report_progress)
        if folder.is_dir():
            # fails if somebody has put a file there since the check above, so that this file is not lost
            folder.rmdir()
        incomplete.rename(folder)
    return built


def _check_folder_is_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(
            f"{folder} already exists and is not an empty folder. Choose a new folder, or a file name ending in .zip."
        )


def _build_consistently(
    study: Study, blinded: bool, write_once: Callable[[Study, list[ArchiveFile]], int], report_progress: ReportProgress
) -> BuiltArchive:
    """Write the archive until the study's state is the same before and after. Raises ExportError if it never is."""
    for _ in range(_MAX_TRIES):
        # read again: the object may be older than the change that made the last try fail
        study = Study.objects.get(pk=study.pk)
        archive_requests.check_may_export(study, blinded)
        state = archive_requests.compute_state(study)
        n_files = write_once(
            study,
            contents.list_blinded_files(study)
            if blinded
            else contents.list_unblinded_files(study, _get_or_compute_analysis(study, report_progress)),
        )
        if archive_requests.compute_state(study) == state:
            return BuiltArchive(n_files, state)
    raise ExportError(
        f"{study.name} changed during each try, because ratings are being submitted. Pause the study, or try again at a quieter time."
    )


def _get_or_compute_analysis(study: Study, report_progress: ReportProgress) -> Analysis:
    """Return the stored analysis of the current ratings; compute it if it is missing."""
    try:
        return store.compute_analysis(study, Filters(), report_progress)
    except _ANALYSIS_ERRORS as error:
        raise ExportError(
            f"The analysis of {study.name} could not be computed, so no archive with results was created: "
            f"{str(error)[:300] or type(error).__name__}. Try again; the blinded archive needs no analysis."
        ) from error
