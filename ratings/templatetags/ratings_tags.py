"""Template tags and filters of the pages of studies and raters, and of the main navigation."""

import re
from datetime import datetime

from django import template
from django.template import Context
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ratings.raters import email_messages
from ratings.web import job_status
from ratings.web.study import navigation
from simulation.models import Job

register = template.Library()


@register.filter("percent")
def format_percent(share: float | None) -> str:
    """Return a share as a whole percentage, or "undefined" for None."""
    # Formatted as % first: multiplying by 100 would round some shares differently.
    return "undefined" if share is None else f"{share:.0%}"


@register.filter("seconds")
def format_seconds(number: float | None) -> str:
    """Return a time per item; a dash if there is none yet."""
    if number is None:
        return "–"
    return f"{number:.0f} s" if number >= 1 or number == 0 else "under 1 s"


@register.filter("ago")
def format_age(at: datetime) -> str:
    """Return how many days ago a moment was, by the calendar."""
    days = (timezone.localdate() - timezone.localdate(at)).days
    return "today" if days <= 0 else "yesterday" if days == 1 else f"{days} days ago"


@register.simple_tag
def email_is_set_up() -> bool:
    """Return whether this site can send e-mail."""
    return email_messages.is_email_set_up()


@register.filter("words")
def replace_underscores(code: str) -> str:
    """Return an internal name, such as an error kind, with spaces in place of underscores."""
    return code.replace("_", " ")


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


@register.filter
def name_parts(name: str) -> list[str]:
    """Split a CamelCase name where a line may break: "AgaroseGel" gives "Agarose", "Gel"."""
    return re.split(r"(?<=[a-z])(?=[A-Z])", name)


@register.simple_tag(takes_context=True)
def nav_link(context: Context, name: str, label: str) -> SafeString:
    """Return a link that is marked as current if it leads to the current page or a page above it."""
    address = reverse(name)
    # By prefix, so that the pages below a section keep its link highlighted.
    current = mark_safe(' aria-current="page"') if context["request"].path.startswith(address) else ""
    return format_html('<a href="{}"{}>{}</a>', address, current, label)


@register.simple_tag(takes_context=True)
def study_navigation(context: Context) -> navigation.Navigation:
    """Return the navigation of the study's pages for the current user and page."""
    request = context["request"]
    return navigation.build_navigation(context["study"], request.role, request.path, is_staff=request.user.is_staff)
