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

from simulation.casts import RunConfig
from simulation.casts.run_config import PERSON
from simulation.lab.actions import KINDS, QUIT, SUBMIT, ActionType
from simulation.lab.bench import REJECTIONS_ALLOWED, Bench
from simulation.lab.errors import LabError
from simulation.lab.rendering import format_clock
from simulation.models import Episode
from simulation.runs import benches, create
from simulation.web import run_sizes
from simulation.web.access import StaffRequest, render_page_or_fragment, staff_only
from simulation.web.episode_status import (
    UNFINISHED,
    EpisodeRow,
    describe_missing_worker,
    make_episode_row,
    poll_seconds,
)
from simulation.web.forms.human_agent import ActionForm, HumanEpisodeForm, list_bench_materials
from simulation.web.transcript import build_step_view

_MAX_OPEN = 20


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def start_human_episode(request: StaffRequest) -> HttpResponse:
    """Start an episode: choose the experiment, and who answers."""
    if request.method == "POST":
        form = HumanEpisodeForm(request.POST)
        # The same form has a button that only updates the size, for browsers without scripts.
        if form.is_valid() and run_sizes.SIZE_BUTTON not in request.POST and (episode := _try_start(form, request)):
            return redirect("simulation:play", code=episode.code)
    else:
        form = HumanEpisodeForm(initial={"experiment": request.GET.get("experiment", "")})
    if request.htmx:
        # The size is computed from the form as it is, without errors: somebody is still typing.
        return render(request, "simulation/_order_size.html", run_sizes.size_of_person(HumanEpisodeForm(request.GET)))
    context = {"form": form, "lines": _list_open(request), **run_sizes.size_of_person(form)}
    return render(request, "simulation/person_new.html", context, status=422 if form.errors else 200)


def _try_start(form: HumanEpisodeForm, request: StaffRequest) -> Episode | None:
    """Return the new episode.

    If it cannot be created, for example because a key was removed, add the reason to the form and return None.
    """
    try:
        data = form.cleaned_data
        who, submission, limit = request.user, data["submission_id"], data["max_cost"]
        return create.create_human_episode(data["experiment"], data["cast"], who, submission, max_cost=limit)
    except LabError as error:
        form.add_error("cast", str(error))
        return None


def _list_open(request: StaffRequest) -> list[EpisodeRow]:
    """Return this person's episodes that have not ended, the latest first."""
    own_episodes = _episodes_for_bench().filter(cast=create.HUMAN_CAST, run__created_by=request.user)
    return [make_episode_row(row) for row in own_episodes.exclude(status__in=Episode.ENDED)[:_MAX_OPEN]]


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def show_bench(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the bench. A GET with `action` shows that action's form; htmx requests only the form, or whether an answer has arrived."""
    row = get_object_or_404(_episodes_for_bench().select_related("run__created_by"), code=code)
    if not _is_by_person(row):
        return redirect("simulation:episode", code=row.code)
    # An episode without a known creator may be continued by any member of staff.
    mine = row.run.created_by_id in (None, request.user.pk)
    if request.method == "POST":
        return _submit_action(request, row, mine)
    # A request without an action is the poll for an answer.
    if request.htmx and "action" not in request.GET:
        return _poll_answer(request, row)
    bench = benches.build_bench(row)
    kind = bench.catalogue.find_type(request.GET.get("action", ""))
    form = ActionForm(kind, bench.get_situation()) if kind and mine and _awaits_person(row) else None
    context = _build_context(row, bench, kind, form, mine)
    return render_page_or_fragment(request, "simulation/person.html", "simulation/_person_form.html", context)


def _submit_action(request: StaffRequest, row: Episode, mine: bool) -> HttpResponse:
    """Submit an action of the person whose episode it is. A rejection by the catalogue is shown and costs no step."""
    number, bench = request.POST.get("number", ""), benches.build_bench(row)
    kind = bench.catalogue.find_type(request.POST.get("action", ""))
    # The number of the step protects against two tabs: the second submission finds another step.
    if not mine or kind is None or not _awaits_person(row) or number != str(row.next_number):
        messages.info(request, "Nothing was done: this step has already been taken, or it is not your episode.")
        return _redirect_to_bench(row)
    form = ActionForm(kind, bench.get_situation(), request.POST)
    if form.is_valid():
        # The step is checked once more when the choice is stored, since another tab may have been quicker.
        refused = create.submit_human_action(row, form.get_action(), row.next_number)
        if not refused:
            return _redirect_to_bench(row)
        form.add_error(None, refused)
    return render(request, "simulation/person.html", _build_context(row, bench, kind, form, mine), status=422)


def _poll_answer(request: StaffRequest, row: Episode) -> HttpResponse:
    """Return the waiting message again or, once there is an answer, a response that makes htmx reload the page."""
    if not _is_answering(row):
        # A reload instead of a fragment, because the answer changes the whole page.
        response = HttpResponse(headers={"HX-Refresh": "true"})
    else:
        response = render(request, "simulation/_person_waiting.html", _waiting_context(row))
    # A cached response would never show that the answer has arrived.
    add_never_cache_headers(response)
    return response


def _build_context(
    row: Episode, bench: Bench, kind: ActionType | None, form: ActionForm | None, mine: bool
) -> dict[str, Any]:
    # The newest first: the last answer is what the person needs.
    steps = [build_step_view(step) for step in row.transitions.order_by("-number")]
    return {
        **_waiting_context(row),
        "mine": mine,
        "your_move": mine and _awaits_person(row),
        "answers": RunConfig.from_json(row.run.setup).transition_model.name,
        "number": row.next_number,
        "elapsed": format_clock(bench.elapsed),
        "left": bench.max_steps - bench.steps_used,
        "rejections": bench.consecutive_rejections,
        "rejections_allowed": REJECTIONS_ALLOWED,
        "last": steps[0] if steps else None,
        "earlier": steps[1:],
        "groups": _group_actions(bench),
        "kind": kind,
        "form": form,
        "shelf": list_bench_materials(bench.get_situation(), form.selected_barcodes if form else ()),
        "submit": SUBMIT,
        "quit": QUIT,
        "review": next(iter(row.reviews.all()), None),
    }


def _waiting_context(row: Episode) -> dict[str, Any]:
    line, answering = make_episode_row(row), _is_answering(row)
    notice = describe_missing_worker(answering)
    poll = poll_seconds([row.status], notice) if answering else 0
    return {
        "line": line,
        "episode": row,
        "answering": answering,
        "notice": notice,
        "poll": poll,
        "pending": row.pending,
    }


def _group_actions(bench: Bench) -> list[tuple[str, list[ActionType]]]:
    """Return the actions by kind and name."""
    types = sorted(bench.catalogue.types.values(), key=lambda known: known.name)
    return [(kind, [known for known in types if known.kind == kind]) for kind in KINDS]


def _episodes_for_bench() -> QuerySet[Episode]:
    """Return episodes with what a bench needs, without rarely needed long columns."""
    rows = Episode.objects.select_related("experiment", "run", "retried_as").prefetch_related("reviews")
    # The steps are loaded by the bench; long columns of the retry are never shown.
    return rows.defer("initial", "memory", "experiment__data", "retried_as__initial", "retried_as__memory")


def _awaits_person(row: Episode) -> bool:
    return row.awaits_person and not row.has_ended and row.cancel_requested_at is None


def _is_answering(row: Episode) -> bool:
    """Return whether the episode can advance without the person."""
    # While a person is awaited, nothing arrives by itself and the page need not poll.
    return not row.awaits_person and row.status in UNFINISHED


def _is_by_person(row: Episode) -> bool:
    agent = row.run.setup.get("cast", {}).get("agent", {})
    return isinstance(agent, dict) and agent.get("plays") == PERSON


def _redirect_to_bench(row: Episode) -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse("simulation:play", args=[row.code]))
