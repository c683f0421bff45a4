"""Who may see the laboratory: staff. To anyone else who is signed in, its pages do not exist."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django_htmx.middleware import HtmxDetails

from simulation.models import Job


class StaffRequest(HttpRequest):
    """A request that `staff_only` let through."""

    user: User
    htmx: HtmxDetails


_seals: list[Callable[[Job], bool]] = []


def seal(asked: Callable[[Job], bool]) -> None:
    """Have `asked` of every job whose calls somebody wants to read. The laboratory does not know what its jobs are for."""
    _seals.append(asked)


def sealed(job: Job | None) -> bool:
    """Whether what models said in this job is shown to nobody yet."""
    return job is not None and any(asked(job) for asked in _seals)


_doors: list[Callable[[User, Sequence[Job]], set[int]]] = []


def door(asked: Callable[[User, Sequence[Job]], set[int]]) -> None:
    """Have `asked` say which of some jobs have a page for this user, by their keys."""
    _doors.append(asked)


def open_jobs(user: User, jobs: Sequence[Job]) -> set[int]:
    """The keys of those of these jobs whose page this user may open: to the others nothing links."""
    return {pk for asked in _doors for pk in asked(user, jobs)}


P = ParamSpec("P")
View = Callable[Concatenate[StaffRequest, P], HttpResponseBase]
GuardedView = Callable[..., HttpResponseBase]


def staff_only(view: View[P]) -> GuardedView:
    """Runs the view for staff and answers a plain 404 to others; LoginRequiredMiddleware has turned away strangers."""

    @wraps(view)
    def guarded(request: StaffRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_staff:
            raise Http404
        return view(request, *args, **kwargs)

    return guarded


def page_or_fragment(request: StaffRequest, page: str, fragment: str, context: Mapping[str, Any]) -> HttpResponse:
    """The fragment for htmx, the page that includes it for everyone else; neither is kept by a cache."""
    partial = request.htmx and not request.htmx.history_restore_request
    response = render(request, fragment if partial else page, context)
    patch_vary_headers(response, ["HX-Request"])
    add_never_cache_headers(response)
    return response
