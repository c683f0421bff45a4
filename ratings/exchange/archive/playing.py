"""The job that builds an archive. The zip is written to the worker's disk first and then stored piece by piece."""

import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from ratings.exchange.archive import making, orders
from ratings.models import Study
from ratings.studies import SealedError, StudyError
from simulation.jobs import Work, jobs
from simulation.jobs.job_files import PIECE


@jobs.handles(orders.KIND)
def play(work: Work) -> Mapping[str, Any]:
    """Build the zip of the study's current state and store it with the job."""
    study = Study.objects.filter(code=work.params["study"]).first()
    if study is None:
        raise jobs.Failed("The study no longer exists.")
    blinded = work.params["variant"] == orders.BLINDED
    # On disk, not in memory: an archive may be larger than the worker's memory. The directory of a zip is written
    # last, so it cannot be streamed into the database.
    with tempfile.TemporaryFile() as file:
        try:
            files, state = making.zipped(study, blinded, file, work.tell)
        except SealedError as error:
            raise jobs.Failed(f"{error}. Request the blinded archive instead.") from error
        except (making.ExportError, StudyError) as error:
            raise jobs.Failed(str(error)) from error
        file.seek(0)
        work.tell(1, 1, "Storing the archive")
        stored_file = work.put(name(study, blinded), "application/zip", _pieces(file))
    result = {"said": f"{files} files in one archive{', blinded' if blinded else ''}.", "state": state}

    def logged() -> Mapping[str, Any]:
        orders.log(study, blinded, work.job.asked_by, stored_file.sha256)
        return result

    # in one transaction with the end of the job: both happen or neither
    return work.finish(logged)


def name(study: Study, blinded: bool) -> str:
    """Return the file name of the archive."""
    return f"{study.slug}{'-blinded' if blinded else ''}.zip"


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece
