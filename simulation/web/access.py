"""Access to the laboratory: staff only. Its pages return 404 to other users."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.middleware import HtmxDetails

from simulation.models import Job


class StaffRequest(HttpRequest):
    """A request that `staff_only` accepted."""

    user: User
    htmx: HtmxDetails


P = ParamSpec("P")
View = Callable[Concatenate[StaffRequest, P], HttpResponseBase]
GuardedView = Callable[..., HttpResponseBase]
# Other apps add their own checks, because the laboratory does not know what its jobs are for.
SEALED_CHECKS: list[Callable[[Job], bool]] = []  # each returns whether the calls of a job are hidden for now
PAGE_CHECKS: list[Callable[[User, Sequence[Job]], set[int]]] = []  # each returns the jobs whose page this user may open


def is_sealed(job: Job | None) -> bool:
    """Return whether the model replies of this job are hidden from everybody for now."""
    # Asked for each request, because a study can be unblinded at any time.
    return job is not None and any(asked(job) for asked in SEALED_CHECKS)


def find_linkable_jobs(user: User, jobs: Sequence[Job]) -> set[int]:
    """Return the keys of the jobs whose page this user may open; nothing links to the others."""
    return {pk for asked in PAGE_CHECKS for pk in asked(user, jobs)}


# 404 and not 403: a rater must not learn that these pages exist.
def staff_only(view: View[P]) -> GuardedView:
    """Run the view for staff and return 404 to other users. LoginRequiredMiddleware has rejected anonymous visitors."""

    @wraps(view)
    def guarded_view(request: StaffRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_staff:
            raise Http404
        return view(request, *args, **kwargs)

    return guarded_view


def staff_page(view: View[P]) -> GuardedView:
    """Run a view that only reads, for staff."""
    return staff_only(require_safe(view))


def staff_form(view: View[P]) -> GuardedView:
    """Run a view that shows a form and takes its data, for staff."""
    return staff_only(require_http_methods(["GET", "HEAD", "POST"])(view))


def staff_action(view: View[P]) -> GuardedView:
    """Run the view of a button, for staff."""
    return staff_only(require_POST(view))


def render_page_or_fragment(
    request: StaffRequest, page: str, fragment: str, context: Mapping[str, Any]
) -> HttpResponse:
    """Render the fragment for htmx, and otherwise the page that includes it; caches store neither."""
    # After "back", htmx restores from its cache or asks for the full page; a fragment would then be shown alone.
    partial = request.htmx and not request.htmx.history_restore_request
    response = render(request, fragment if partial else page, context)
    # Both variants have the same URL, so caches must distinguish them.
    patch_vary_headers(response, ["HX-Request"])
    add_never_cache_headers(response)
    return response
