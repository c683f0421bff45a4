"""Jobs whose work a test defines: request them and run them."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from simulation.jobs import Work, job_kinds, jobs
from simulation.leases import Lease, leases
from simulation.models import Job
from tests.support.embedded import play_all

Handler = Callable[[Work], Mapping[str, Any]]
ACTS: dict[str, Handler] = {}


job_kinds.declare("tested", "Tested work", __name__)


@jobs.handles("tested")
def _tested(work: Work) -> Mapping[str, Any]:
    """Run the action of the test that requested the job."""
    return ACTS[work.params["act"]](work)


def asked(act: Handler, name: str = "act", **more: Any) -> Job:
    """Request a job that runs `act`."""
    ACTS[name] = act
    return jobs.request("tested", {"act": name, **more}, subject="study/one")


def claimed(job: Job) -> Lease[Job]:
    lease = leases.claim(Job, job.code)
    assert lease is not None
    return lease


def lapse(job: Job) -> None:
    """Let the lease expire, as if the worker had been killed and sent no more heartbeats."""
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def played(job: Job) -> Job:
    """Run the job with the embedded worker's own code, and return it reloaded."""
    play_all()
    return now(job)


def now(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)
