"""Jobs whose work a test defines: request them and run them."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from simulation import leases
from simulation.jobs import Work, jobs
from simulation.leases import Lease
from simulation.models import Job
from tests.support.embedded_worker import run_until_idle

Handler = Callable[[Work], Mapping[str, Any]]
ACTIONS_BY_NAME: dict[str, Handler] = {}


jobs.declare_kind("tested", "Tested work", __name__)


@jobs.register_handler("tested")
def _run_test_action(work: Work) -> Mapping[str, Any]:
    """Run the action of the test that requested the job."""
    return ACTIONS_BY_NAME[work.params["act"]](work)


def request_test_job(action: Handler, name: str = "act", **params: Any) -> Job:
    """Request a job that runs `act`."""
    ACTIONS_BY_NAME[name] = action
    return jobs.request_job("tested", {"act": name, **params}, subject="study/one")


def claim_job(job: Job) -> Lease[Job]:
    lease = leases.claim_row(Job, job.code)
    assert lease is not None
    return lease


def expire_lease(job: Job) -> None:
    """Let the lease expire, as if the worker had been killed and sent no more heartbeats."""
    Job.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def run_job(job: Job) -> Job:
    """Run the job with the embedded worker's own code, and return it reloaded."""
    run_until_idle()
    return reload_job(job)


def reload_job(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)
