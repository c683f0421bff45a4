"""Build an archive: load or compute the analysis, and write every file from one state of the study."""

import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from ratings.exchange.archive import archive_requests, contents
from ratings.exchange.archive.archive_files import (
    CHECKSUMS_NAME,
    DESCRIPTOR_NAME,
    ArchiveFile,
    WrittenFile,
    create_text_file,
    format_data_package,
)
from ratings.models import Analysis, Study
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.studies import SealedError, StudyError
from simulation.jobs import Work, jobs
from simulation.jobs.job_files import PIECE_SIZE
from wetbench_site.text import describe_error

ReportProgress = Callable[[int, int, str], None]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can store; used for all files, so that bytes are reproducible
_FILE_MODE = 0o100644 << 16  # a regular file, rw-r--r--; zip keeps Unix modes in the upper 16 bits
_BLOCK_SIZE = 1 << 16  # bytes


class Writer(Protocol):
    def write(self, data: bytes, /) -> object: ...


OpenFile = Callable[[str], AbstractContextManager[Writer]]


def open_zip(file: IO[bytes]) -> tuple[zipfile.ZipFile, OpenFile]:
    """Return a zip, which the caller closes, and a function that opens files in it with a fixed time and mode."""
    zip_file = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)

    def open_member(name: str) -> IO[bytes]:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, _FILE_MODE, 3
        # The header must choose the 64-bit format before the size is known, and a table may exceed 2 GiB.
        # Zip programs have supported that format since 2001.
        return zip_file.open(info, "w", force_zip64=name.endswith((".csv", ".jsonl")))

    return zip_file, open_member


def get_folder_opener(folder: Path) -> OpenFile:
    """Return a function that opens files in an empty folder."""

    def open_member(name: str) -> IO[bytes]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # x: two files with one name would be a bug, not something to overwrite
        return path.open("xb")

    return open_member


def write_archive(
    study: Study, blinded: bool, files: Sequence[ArchiveFile], open_file: OpenFile, report_progress: ReportProgress
) -> int:
    """Write every file, the descriptor and the checksums, a piece at a time. Return the number of files."""
    written = []
    n_files = len(files) + 2
    for step, entry in enumerate(files):
        report_progress(step, n_files, f"Writing {entry.name}")
        written.append(_write_file(entry, open_file))
    report_progress(n_files - 2, n_files, f"Writing {DESCRIPTOR_NAME}")
    package = format_data_package(study, blinded, written)
    written.append(_write_file(create_text_file(DESCRIPTOR_NAME, "Description of the files.", package), open_file))
    lines = "".join(f"{file.sha256}  {file.entry.name}\n" for file in written)  # for `sha256sum -c`
    _write_file(create_text_file(CHECKSUMS_NAME, "Digests.", lines), open_file)
    return n_files


def _write_file(entry: ArchiveFile, open_file: OpenFile) -> WrittenFile:
    digest, size = hashlib.sha256(), 0
    with open_file(entry.name) as file:
        for piece in _join_into_blocks(entry.pieces()):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
    return WrittenFile(entry, size, digest.hexdigest())


def _join_into_blocks(pieces: Iterable[str | bytes]) -> Iterable[bytes]:
    """Yield the pieces joined into blocks, because a million small writes into a zip are slow."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece.encode() if isinstance(piece, str) else piece
        if len(buffer) >= _BLOCK_SIZE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


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
    study: Study, blinded: bool, file: IO[bytes], report_progress: ReportProgress = store.ignore_progress
) -> BuiltArchive:
    """Write the archive as a zip into this seekable file.

    Raises StudyError for a draft, SealedError for an unblinded archive before the study is unblinded, and ExportError if
    the analysis cannot be computed or the study keeps changing.
    """

    def write_once(study: Study, files: list[ArchiveFile]) -> int:
        file.seek(0)
        # a second try starts with an empty file, because the first may have written more bytes
        file.truncate()
        zip_file, open_file = open_zip(file)
        with zip_file:
            return write_archive(study, blinded, files, open_file, report_progress)

    return _build_consistently(study, blinded, write_once, report_progress)


def build_folder(
    study: Study, blinded: bool, folder: Path, report_progress: ReportProgress = store.ignore_progress
) -> BuiltArchive:
    """Write the archive as a folder, which appears once all its files are written. Raises the errors of `build_zip`.

    Raises ExportError if the path exists and is not an empty folder.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(
            f"{folder} already exists and is not an empty folder. Choose a new folder, or a file name ending in .zip."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    # In the parent folder, hence on the same file system: the rename at the end is atomic.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        incomplete = Path(temporary) / "made"

        def write_once(study: Study, files: list[ArchiveFile]) -> int:
            shutil.rmtree(incomplete, ignore_errors=True)
            incomplete.mkdir()
            return write_archive(study, blinded, files, get_folder_opener(incomplete), report_progress)

        built = _build_consistently(study, blinded, write_once, report_progress)
        if folder.is_dir():
            # fails if somebody has put a file there since the check above, so that this file is not lost
            folder.rmdir()
        incomplete.rename(folder)
    return built


def _build_consistently(
    study: Study, blinded: bool, write_once: Callable[[Study, list[ArchiveFile]], int], report_progress: ReportProgress
) -> BuiltArchive:
    """Write the archive until the study's state is the same before and after. Raises ExportError if it never is."""
    for _ in range(_MAX_TRIES):
        # read again: the object may be older than the change that made the last try fail
        study = Study.objects.get(pk=study.pk)
        archive_requests.check_may_export(study, blinded)
        state = archive_requests.compute_state(study)
        if blinded:
            files = contents.list_blinded_files(study)
        else:
            files = contents.list_unblinded_files(study, _get_or_compute_analysis(study, report_progress))
        n_files = write_once(study, files)
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
            f"{describe_error(error)[:300]}. Try again; the blinded archive needs no analysis."
        ) from error


@jobs.register_handler(archive_requests.JOB_KIND)
def run_export_job(work: Work) -> Mapping[str, Any]:
    """Build the zip of the study's current state and store it with the job."""
    study = Study.objects.filter(code=work.params["study"]).first()
    if study is None:
        raise jobs.JobFailed("The study no longer exists.")
    blinded = work.params["variant"] == archive_requests.BLINDED
    # On disk, not in memory: an archive may be larger than the worker's memory. The directory of a zip is written
    # last, so it cannot be streamed into the database.
    with tempfile.TemporaryFile() as file:
        try:
            files, state = build_zip(study, blinded, file, work.report_progress)
        except SealedError as error:
            raise jobs.JobFailed(f"{error}. Request the blinded archive instead.") from error
        except (ExportError, StudyError) as error:
            raise jobs.JobFailed(str(error)) from error
        parts = _list_parts(file)
        file.seek(0)
        work.report_progress(1, 1, "Storing the archive")
        pieces = iter(lambda: file.read(PIECE_SIZE), b"")
        stored_file = work.store_file(format_archive_name(study, blinded), "application/zip", pieces)
    result = {"said": f"{files} files in one archive{', blinded' if blinded else ''}.", "state": state, "parts": parts}

    def log_and_finish() -> Mapping[str, Any]:
        archive_requests.log_export(study, blinded, work.job.asked_by, stored_file.sha256)
        return result

    # in one transaction with the end of the job: both happen or neither
    return work.finish_job(log_and_finish)


def _list_parts(file: IO[bytes]) -> list[dict[str, Any]]:
    """Return the files and folders at the top of a zip, with the number of files and the unpacked bytes of each."""
    parts: dict[str, dict[str, Any]] = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            folder, slash, _ = member.filename.partition("/")
            part = parts.setdefault(folder + slash, {"name": folder + slash, "files": 0, "bytes": 0})
            part["files"] += 1
            part["bytes"] += member.file_size
    return list(parts.values())


def format_archive_name(study: Study, blinded: bool) -> str:
    """Return the file name of the archive."""
    return f"{study.slug}{'-blinded' if blinded else ''}.zip"
