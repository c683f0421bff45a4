"""The buttons of a run: stop, pause and resume, try again."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from simulation.models import Run
from simulation.runs import control
from simulation.web.access import StaffRequest, staff_only
from simulation.web.episodes import show_request_result


@staff_only
@require_POST
def stop_run(request: StaffRequest, code: UUID) -> HttpResponse:
    row = _get_run(code)
    control.stop_run(row)
    return _redirect_to_run(row)


@staff_only
@require_POST
def pause_run(request: StaffRequest, code: UUID) -> HttpResponse:
    row = _get_run(code)
    control.pause_run(row)
    messages.success(request, "Paused. Calls in progress are completed and stored; no new calls are made.")
    return _redirect_to_run(row)


@staff_only
@require_POST
def resume_run(request: StaffRequest, code: UUID) -> HttpResponse:
    row = _get_run(code)
    control.resume_run(row)
    return _redirect_to_run(row)


@staff_only
@require_POST
def retry_blocked(request: StaffRequest, code: UUID) -> HttpResponse:
    """Continue the run's blocked rows at their current step."""
    row = _get_run(code)
    if number := control.retry_blocked(row):
        # Only rows that a person could unblock; others would fail again for the same reason.
        messages.success(request, f"{number} queued again; each continues at its current step.")
    else:
        messages.info(request, "Nothing was blocked by a missing key or a rejected request.")
    return _redirect_to_run(row)


@staff_only
@require_POST
def request_run_verdicts(request: StaffRequest, code: UUID) -> HttpResponse:
    """Request all missing verdicts of a run again."""
    row = _get_run(code)
    # A provider that was blocked, for example by a wrong key, is tried again first.
    control.reopen_limiters(row)
    show_request_result(request, control.request_verdicts(row.episodes.all()))
    return _redirect_to_run(row)


def _get_run(code: UUID) -> Run:
    return get_object_or_404(Run, code=code)


def _redirect_to_run(row: Run) -> HttpResponse:
    return redirect("simulation:run", code=row.code)
