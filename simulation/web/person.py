"""The bench for a person: what an agent sees, and the catalogue as a form."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.views.decorators.http import require_http_methods

from simulation.casts import Setup
from simulation.casts.setups import PERSON
from simulation.lab.actions import KINDS, QUIT, SUBMIT, ActionType
from simulation.lab.bench import REJECTIONS_ALLOWED, Bench
from simulation.lab.errors import LabError
from simulation.lab.telling import clock
from simulation.models import Episode
from simulation.runs import laboratory, queueing
from simulation.web import order_sizes
from simulation.web.access import StaffRequest, page_or_fragment, staff_only
from simulation.web.forms.person_forms import ActionForm, PersonForm, shelf
from simulation.web.standing import WORK_LEFT, Standing, poll_seconds, standing, worker_notice
from simulation.web.transcript import step_view

_MOST_OPEN = 20


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def new_person(request: StaffRequest) -> HttpResponse:
    """Start an episode: choose the experiment, and who answers."""
    if request.method == "POST":
        form = PersonForm(request.POST)
        # The same form has a button that only updates the size, for browsers without scripts.
        if form.is_valid() and order_sizes.ASKED not in request.POST and (episode := _begun(form, request)):
            return redirect("simulation:play", code=episode.code)
    else:
        form = PersonForm(initial={"experiment": request.GET.get("experiment", "")})
    if request.htmx:
        # The size is computed from the form as it is, without errors: somebody is still typing.
        return render(request, "simulation/_order_size.html", order_sizes.of_person(PersonForm(request.GET)))
    context = {"form": form, "lines": _begun_before(request), **order_sizes.of_person(form)}
    return render(request, "simulation/person_new.html", context, status=422 if form.errors else 200)


def _begun(form: PersonForm, request: StaffRequest) -> Episode | None:
    """Return the episode, or None with the reason in the form, because a key may have been removed since."""
    try:
        data = form.cleaned_data
        who, submission, limit = request.user, data["submission_id"], data["max_cost"]
        return queueing.queue_person(data["experiment"], data["cast"], who, submission, max_cost=limit)
    except LabError as error:
        form.add_error("cast", str(error))
        return None


def _begun_before(request: StaffRequest) -> list[Standing]:
    """Return this person's episodes that have not ended, the latest first."""
    own_episodes = _rows().filter(cast=queueing.PERSON_CAST, run__created_by=request.user)
    return [standing(row) for row in own_episodes.exclude(status__in=Episode.ENDED)[:_MOST_OPEN]]


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def play(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the bench. A GET with `action` shows that action's form; htmx requests only the form, or whether an answer has arrived."""
    row = get_object_or_404(_rows().select_related("run__created_by"), code=code)
    if not _by_person(row):
        return redirect("simulation:episode", code=row.code)
    # An episode without a known creator may be continued by any member of staff.
    mine = row.run.created_by_id in (None, request.user.pk)
    if request.method == "POST":
        return _choose(request, row, mine)
    # A request without an action is the poll for an answer.
    if request.htmx and "action" not in request.GET:
        return _answered(request, row)
    bench = laboratory.bench(row)
    kind = bench.catalogue.find(request.GET.get("action", ""))
    form = ActionForm(kind, bench.situation()) if kind and mine and _awaits(row) else None
    context = _context(row, bench, kind, form, mine)
    return page_or_fragment(request, "simulation/person.html", "simulation/_person_form.html", context)


def _choose(request: StaffRequest, row: Episode, mine: bool) -> HttpResponse:
    """Submit an action of the person whose episode it is. A rejection by the catalogue is shown at no cost."""
    number, bench = request.POST.get("number", ""), laboratory.bench(row)
    kind = bench.catalogue.find(request.POST.get("action", ""))
    # The number of the step protects against two tabs: the second submission finds another step.
    if not mine or kind is None or not _awaits(row) or number != str(row.next_number):
        messages.info(request, "Nothing was done: this step has already been taken, or it is not your episode.")
        return _back(row)
    form = ActionForm(kind, bench.situation(), request.POST)
    if form.is_valid():
        # The step is checked once more when the choice is stored, since another tab may have been quicker.
        refused = queueing.choose_for(row, form.action(), row.next_number)
        if not refused:
            return _back(row)
        form.add_error(None, refused)
    return render(request, "simulation/person.html", _context(row, bench, kind, form, mine), status=422)


def _answered(request: StaffRequest, row: Episode) -> HttpResponse:
    """Return the waiting line again or, once there is an answer, the instruction to reload the page."""
    if not _answering(row):
        # A reload instead of a fragment, because the answer changes the whole page.
        response = HttpResponse(headers={"HX-Refresh": "true"})
    else:
        response = render(request, "simulation/_person_waiting.html", _waiting(row))
    # A cached response would never show that the answer has arrived.
    add_never_cache_headers(response)
    return response


def _context(
    row: Episode, bench: Bench, kind: ActionType | None, form: ActionForm | None, mine: bool
) -> dict[str, Any]:
    # The newest first: the last answer is what the person needs.
    steps = [step_view(step) for step in row.transitions.order_by("-number")]
    return {
        **_waiting(row),
        "mine": mine,
        "your_move": mine and _awaits(row),
        "answers": Setup.from_json(row.run.setup).transition_model.name,
        "number": row.next_number,
        "elapsed": clock(bench.elapsed),
        "left": bench.max_steps - bench.steps,
        "rejections": bench.rejections_running,
        "rejections_allowed": REJECTIONS_ALLOWED,
        "last": steps[0] if steps else None,
        "earlier": steps[1:],
        "groups": _groups(bench),
        "kind": kind,
        "form": form,
        "shelf": shelf(bench.situation(), form.picked if form else ()),
        "submit": SUBMIT,
        "quit": QUIT,
        "review": next(iter(row.reviews.all()), None),
    }


def _waiting(row: Episode) -> dict[str, Any]:
    line, answering = standing(row), _answering(row)
    notice = worker_notice(answering)
    poll = poll_seconds([row.status], notice) if answering else 0
    return {
        "line": line,
        "episode": row,
        "answering": answering,
        "notice": notice,
        "poll": poll,
        "pending": row.pending,
    }


def _groups(bench: Bench) -> list[tuple[str, list[ActionType]]]:
    """Return the actions by kind and name."""
    types = sorted(bench.catalogue.types.values(), key=lambda known: known.name)
    return [(kind, [known for known in types if known.kind == kind]) for kind in KINDS]


def _rows() -> QuerySet[Episode]:
    """Return episodes with what a bench needs, without rarely needed long columns."""
    rows = Episode.objects.select_related("experiment", "run", "retried_as").prefetch_related("reviews")
    # The steps are loaded by the bench; long columns of the retry are never shown.
    return rows.defer("initial", "memory", "experiment__data", "retried_as__initial", "retried_as__memory")


def _awaits(row: Episode) -> bool:
    return row.awaits_person and not row.ended and row.cancel_requested_at is None


def _answering(row: Episode) -> bool:
    """Return whether something can arrive without the person."""
    # While a person is awaited, nothing arrives by itself and the page need not poll.
    return not row.awaits_person and row.status in WORK_LEFT


def _by_person(row: Episode) -> bool:
    agent = row.run.setup.get("cast", {}).get("agent", {})
    return isinstance(agent, dict) and agent.get("plays") == PERSON


def _back(row: Episode) -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse("simulation:play", args=[row.code]))
