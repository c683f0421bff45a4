"""The job that makes an archive. It is written to the worker's disk first, then stored piece by piece."""

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
    """The zip of the study as it is now. That it was exported is logged as the job ends, or neither happens."""
    study = Study.objects.filter(code=work.params["study"]).first()
    if study is None:
        raise jobs.Failed("The study is not there any more.")
    blinded = work.params["variant"] == orders.BLINDED
    with tempfile.TemporaryFile() as file:
        try:
            files, state = making.zipped(study, blinded, file, work.tell)
        except SealedError as error:
            raise jobs.Failed(f"{error}. Ask for the blinded archive.") from error
        except (making.ExportError, StudyError) as error:
            raise jobs.Failed(str(error)) from error
        file.seek(0)
        work.tell(1, 1, "Storing the archive")
        made = work.put(name(study, blinded), "application/zip", _pieces(file))
    done = {"said": f"{files} files in one archive{', blinded' if blinded else ''}.", "state": state}

    def logged() -> Mapping[str, Any]:
        orders.log(study, blinded, work.job.asked_by, made.sha256)
        return done

    return work.finish(logged)


def name(study: Study, blinded: bool) -> str:
    """What the file is called."""
    return f"{study.slug}{'-blinded' if blinded else ''}.zip"


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece
