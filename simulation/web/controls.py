"""The buttons of a run: stop, pause and resume, try again."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from simulation.models import Run
from simulation.runs import control
from simulation.web.access import StaffRequest, staff_only
from simulation.web.episodes import tell_requested


@staff_only
@require_POST
def stop_run(request: StaffRequest, code: UUID) -> HttpResponse:
    row = _run(code)
    control.stop_run(row)
    return _back(row)


@staff_only
@require_POST
def pause_run(request: StaffRequest, code: UUID) -> HttpResponse:
    row = _run(code)
    control.pause_run(row)
    messages.success(request, "Paused. Calls under way are answered and kept; no further one is made.")
    return _back(row)


@staff_only
@require_POST
def resume_run(request: StaffRequest, code: UUID) -> HttpResponse:
    row = _run(code)
    control.resume_run(row)
    return _back(row)


@staff_only
@require_POST
def try_again(request: StaffRequest, code: UUID) -> HttpResponse:
    """Lets what is held go on at the step where it stands."""
    row = _run(code)
    if number := control.try_again(row):
        messages.success(request, f"{number} queued again; each goes on at the step where it stood.")
    else:
        messages.info(request, "Nothing was held for a key or a request that was not accepted.")
    return _back(row)


@staff_only
@require_POST
def request_run_verdicts(request: StaffRequest, code: UUID) -> HttpResponse:
    """Request again all verdicts that are missing in a run."""
    row = _run(code)
    control.reopen(row)
    tell_requested(request, control.request_verdicts(row.episodes.all()))
    return _back(row)


def _run(code: UUID) -> Run:
    return get_object_or_404(Run, code=code)


def _back(row: Run) -> HttpResponse:
    return redirect("simulation:run", code=row.code)
