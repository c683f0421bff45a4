"""Raise a run's budget, and continue the rows that the old budget blocked."""

from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from simulation.calls import run_usage
from simulation.lab.errors import LabError
from simulation.models import Run
from simulation.runs import control
from simulation.web.access import StaffRequest, staff_only
from simulation.web.forms.run_form import BudgetFields
from simulation.web.run_states import count_run_state

Limit = TypeVar("Limit", Decimal, int)


class BudgetForm(BudgetFields):
    """The total limits of a run, including what it has used. Blank: no limit of that kind."""

    max_cost = forms.DecimalField(
        min_value=Decimal(0), max_digits=12, decimal_places=6, required=False, label="Maximum cost in US dollars"
    )
    max_tokens = forms.IntegerField(min_value=1, max_value=10**12, required=False, label="Maximum tokens")
    max_minutes = forms.IntegerField(
        min_value=1, max_value=60 * 24 * 60, required=False, label="Maximum time in minutes, from the first call"
    )

    def __init__(self, run: Run, *args: Any, **kwargs: Any) -> None:
        # New limits are compared with the sums of the call log.
        self.run, self.taken = run, run_usage.check_budget_counters(run)
        # Rounded up: rounding down would show a limit that has already passed.
        minutes = None if run.max_seconds is None else -(-run.max_seconds // 60)
        # No exponent, because people read and edit this number.
        cost = None if run.max_cost is None else f"{run.max_cost.normalize():f}"
        kwargs["initial"] = {"max_cost": cost, "max_tokens": run.max_tokens, "max_minutes": minutes}
        super().__init__(*args, **kwargs)

    # A limit below what is used would stop the run again with its first call.
    def clean_max_cost(self) -> Decimal | None:
        taken = self.taken.ledger_cost
        return self._check_above(self.cleaned_data["max_cost"], taken, f"${taken.normalize():f}")

    def clean_max_tokens(self) -> int | None:
        taken = self.taken.ledger_tokens
        return self._check_above(self.cleaned_data["max_tokens"], taken, f"{taken:,} tokens")

    def clean_max_minutes(self) -> int | None:
        began = self.run.first_call_at
        # Whole minutes that have passed; the current one still counts as available.
        passed = 0 if began is None else int((timezone.now() - began).total_seconds() // 60)
        return self._check_above(self.cleaned_data["max_minutes"], passed, f"{passed:,} minutes")

    def _check_above(self, limit: Limit | None, taken: Limit, words: str) -> Limit | None:
        """Return the limit. Raises ValidationError if nothing would remain."""
        if limit is not None and limit <= taken:
            raise forms.ValidationError(f"The run has already used {words}. Enter a larger value, or leave it blank.")
        return limit


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def continue_run(request: StaffRequest, code: UUID) -> HttpResponse:
    """Set a larger budget, and continue the rows that the old budget blocked."""
    row = get_object_or_404(Run, code=code)
    form = BudgetForm(row, request.POST if request.method == "POST" else None)
    if form.is_valid() and _try_continue(row, form):
        messages.success(request, "The budget was raised, and the run continues.")
        return redirect("simulation:run", code=row.code)
    context = {"run": row, "form": form, "state": count_run_state(row)}
    return render(request, "simulation/continue_run.html", context, status=422 if form.errors else 200)


def _try_continue(row: Run, form: BudgetForm) -> bool:
    try:
        control.continue_run(row, **form.get_limits())
    except LabError as error:
        form.add_error(None, str(error))
        return False
    return True
