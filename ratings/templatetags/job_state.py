"""Template tags that show the progress of a job on any page."""

from django import template
from django.template import Context

from ratings.web import job_status
from simulation.models import Job

register = template.Library()


@register.simple_tag(takes_context=True)
def job_state(context: Context, job: Job) -> job_status.JobStatus:
    """Return the job's status for the current user; without a request in the context, no buttons are offered."""
    request = context.get("request")
    return job_status.describe_job(job, request.user if request is not None else None)


@register.simple_tag(takes_context=True)
def included_in(context: Context, job_page: str) -> str:
    """Return the path of the page that includes the fragment, or "" if that is the job's own page or is not known."""
    request = context.get("request")
    if request is None:
        return ""
    # While polling, the request's own path is that of the fragment; htmx sends the path of the page.
    page_path = (request.htmx.current_url_abs_path or "") if request.htmx else request.path
    return "" if page_path.startswith(job_page) else page_path
