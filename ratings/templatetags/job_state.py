"""Where a job stands, for any page that shows one."""

from django import template
from django.template import Context

from ratings.web import job_states
from simulation.models import Job

register = template.Library()


@register.simple_tag(takes_context=True)
def job_state(context: Context, job: Job) -> job_states.JobState:
    """The job's state for the one who looks; without a request in the context, without buttons."""
    request = context.get("request")
    return job_states.state(job, request.user if request is not None else None)


@register.simple_tag(takes_context=True)
def included_in(context: Context, job_page: str) -> str:
    """The page a fragment stands in, where that is not the job's own; "" if it is, or nobody says."""
    request = context.get("request")
    if request is None:
        return ""
    here = (request.htmx.current_url_abs_path or "") if request.htmx else request.path
    return "" if here.startswith(job_page) else here
