"""The job that builds an archive. The zip is written to the worker's disk first and then stored piece by piece."""

import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from ratings.exchange.archive import archive_requests, build
from ratings.models import Study
from ratings.studies import SealedError, StudyError
from simulation.jobs import Work, jobs
from simulation.jobs.job_files import PIECE_SIZE


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
            files, state = build.build_zip(study, blinded, file, work.report_progress)
        except SealedError as error:
            raise jobs.JobFailed(f"{error}. Request the blinded archive instead.") from error
        except (build.ExportError, StudyError) as error:
            raise jobs.JobFailed(str(error)) from error
        file.seek(0)
        work.report_progress(1, 1, "Storing the archive")
        stored_file = work.store_file(format_archive_name(study, blinded), "application/zip", _iter_pieces(file))
    result = {"said": f"{files} files in one archive{', blinded' if blinded else ''}.", "state": state}

    def log_and_finish() -> Mapping[str, Any]:
        archive_requests.log_export(study, blinded, work.job.asked_by, stored_file.sha256)
        return result

    # in one transaction with the end of the job: both happen or neither
    return work.finish_job(log_and_finish)


def format_archive_name(study: Study, blinded: bool) -> str:
    """Return the file name of the archive."""
    return f"{study.slug}{'-blinded' if blinded else ''}.zip"


def _iter_pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE_SIZE):
        yield piece
