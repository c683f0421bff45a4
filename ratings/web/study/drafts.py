"""Around a draft: what the pool holds for it, a look through a rater's eyes, who would rate what, copying, deleting."""

import random
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.blinding import screen
from ratings.models import Study
from ratings.protocol import Found, PlanError, ProtocolError, StudyProtocol, protocols
from ratings.protocol.choices import WORDS
from ratings.protocol.protocol_problems import LAYOUTS, MARKS
from ratings.protocol.reference import WITH_ERROR
from ratings.studies import StudyError, lifecycle
from ratings.studies.pool import opening, pool, rehearsal
from ratings.web.guards import StudyRequest, study_page

_PREVIEWED = 12  # candidates offered for a look


class Sizes(NamedTuple):
    """What a protocol amounts to; `raters` None means as few as will do."""

    items: int
    planted: int
    ratings: int
    raters: int | None
    each: int | None  # items per rater, about, without repeats

    @property
    def percent_planted(self) -> int:
        return round(100 * self.planted / self.items) if self.items else 0


def address(name: str, study: Study, *more: str) -> str:
    return reverse(f"ratings:{name}", args=[study.slug, *more])


def sizes(study: Study) -> Sizes:
    """Counted from the document and the imported items of a draft."""
    protocol = protocols.stored(study.protocol)
    imported = study.imported_items.count()
    items = sum(source.count for source in protocol.sources) + imported
    planted = sum(source.count for source in protocol.sources if source.perturbation != "none")
    planted += study.imported_items.filter(reference__in=WITH_ERROR).count() if imported else 0
    screens = 2 if protocol.conditions == "screens" else 1
    items, planted = screens * items, screens * planted
    raters = protocol.ratings_per_item if protocol.is_crossed else protocol.raters
    wanted = items * protocol.ratings_per_item
    return Sizes(items, planted, wanted, raters, -(-wanted // raters) if raters else None)


def needs(study: Study) -> dict[str, Any]:
    """What a draft amounts to; or why its document cannot be opened here as it stands. Quick: it leaves the pool alone."""
    problems = lifecycle.problems_of(study.protocol)
    return {"problems": problems, "sizes": None if problems else sizes(study)}


def stocked(study: Study) -> dict[str, Any]:
    """What a draft needs and what the pool holds of it, which takes a while where the pool is large."""
    needed = needs(study)
    if needed["problems"]:
        return {**needed, "stock": [], "short": False, "waiting": False, "unplannable": "", "left_out": 0, "shown": 0}
    stock, left_out, shown, alike = pool.take_stock(protocols.stored(study.protocol), study)
    missing = [one for one in stock if not one.enough]
    waiting = any(one.unvetted or one.held for one in missing)
    unplannable = "" if missing or not needed["sizes"].items else _unplannable(study)
    told = {"stock": stock, "short": bool(missing), "waiting": waiting, "unplannable": unplannable}
    return {**needed, **told, "left_out": left_out, "shown": shown, "alike": alike}


def _unplannable(study: Study) -> str:
    """Why nobody can be given work as this draft wants it, though there are items enough; "" if it can be done."""
    try:
        opening.preview(protocols.stored(study.protocol), study)
    except PlanError as error:
        return str(error)
    return ""


@study_page("admin", "analyst")
@require_safe
def stock(request: StudyRequest) -> HttpResponse:
    """What the pool holds for a draft: a fragment that its page asks for once it is there."""
    if not request.study.is_draft:
        return HttpResponse(status=204)
    context = {"study": request.study, "may_run": request.role != "analyst", **stocked(request.study)}
    return render(request, "ratings/_study_stock.html", context)


@study_page("admin")
@require_safe
def preview(request: StudyRequest) -> HttpResponse:
    """One item as a rater would see it, in any layout. It opens nothing and stores nothing."""
    found = _candidates(request.study)
    number = _number(request.GET.get("item", ""), len(found))
    arm = _arm(request, protocols.stored(request.study.protocol))
    context = {
        "study": request.study,
        "number": number,
        "numbers": range(1, len(found) + 1),
        "arm": arm,
        "layouts": [(name, WORDS["layouts"][name].name) for name in LAYOUTS],
        "all_marks": [(name, WORDS["marks"][name].name) for name in MARKS],
    }
    if found:
        payload, goal = found[number - 1]
        context |= screen.view(payload, goal, **arm)
    return render(request, "ratings/study_preview.html", context)


def _candidates(study: Study) -> list[tuple[Any, Any]]:
    """A few items of the study, or of what it could use: payload and context, in an order that tells nothing."""
    if not study.is_draft:
        return list(study.items.order_by("code").values_list("payload", "context")[:_PREVIEWED])
    try:
        protocol = lifecycle.read_protocol(study.protocol)
    except ProtocolError:
        return []
    protocol = replace(protocol, display=replace(protocol.display, context=(False, True)))
    rng = random.Random(f"preview/{study.seed}")
    slugs = list(protocol.experiments or pool.known_experiments())
    rng.shuffle(slugs)
    found: dict[str, Found] = {}
    for slug in slugs:  # one experiment after the other: a few items are enough, and the pool may be large
        found |= {one.candidate.key: one for one in pool.find(replace(protocol, experiments=(slug,)), study)}
        if len(found) >= _PREVIEWED:
            break
    every = [found[key] for key in sorted(found)]
    return [(one.payload, one.context) for one in rng.sample(every, min(_PREVIEWED, len(every)))]


def _arm(request: StudyRequest, protocol: StudyProtocol) -> dict[str, Any]:
    """The screen asked for; what is not asked for is the study's first."""
    display, asked = protocol.display, request.GET
    known_context = {"off": False, "on": True}
    return {
        "layout": asked["layout"] if asked.get("layout") in LAYOUTS else display.layouts[0],
        "with_context": known_context.get(asked.get("context", ""), display.context[0]),
        "marks": asked["marks"] if asked.get("marks") in MARKS else display.marks[0],
        "stage": "first" if asked.get("stage") == "first" else "final",
    }


def _number(asked: str, most: int) -> int:
    return min(int(asked), most) if asked.isdecimal() and len(asked) < 4 and int(asked) > 0 else 1


@study_page("admin")
@require_safe
def matrix(request: StudyRequest) -> HttpResponse:
    """Readers and items: for a draft what opening it now would make, sources shown; later without them."""
    context: dict[str, Any] = {"study": request.study, "matrix": None, "problems": []}
    try:
        draft = request.study.is_draft
        context["matrix"] = rehearsal.rehearse(request.study) if draft else rehearsal.planned(request.study)
    except (PlanError, ProtocolError, StudyError) as error:
        context["problems"] = _told(error)
    return render(request, "ratings/study_matrix.html", context)


@study_page("admin")
@require_safe
def empty(request: StudyRequest) -> HttpResponse:
    """Which results a draft will not have: a fragment that the page of its plan asks for once it is there."""
    if not request.study.is_draft:
        return HttpResponse(status=204)
    context: dict[str, Any] = {"study": request.study, "forecast": None, "problems": []}
    try:
        context["forecast"] = _load_empty_cells().forecast(request.study)
    except (PlanError, ProtocolError) as error:
        context["problems"] = _told(error)
    return render(request, "ratings/_study_empty.html", context)


@study_page("admin")
@require_safe
def plan_json(request: StudyRequest) -> HttpResponse:
    """The plan of a draft as JSON: who would rate how much, and which results would be empty."""
    if not request.study.is_draft:
        return JsonResponse(
            {"problems": [f"{request.study.name} is {request.study.status}: only a draft has a plan"]}, status=409
        )
    try:
        plan = _load_empty_cells().plan_to_json(request.study)
    except (PlanError, ProtocolError) as error:
        return JsonResponse({"problems": list(_told(error))}, status=409)
    return JsonResponse(plan)


def _load_empty_cells() -> Any:
    """Return the module that rehearses a plan. It imports scipy: a second and 100 MB that most web processes never need."""
    return import_module("ratings.results.empty_cells")


def _told(error: Exception) -> Sequence[str]:
    return error.problems if isinstance(error, ProtocolError) else [str(error)]


@study_page("admin")
@require_POST
def duplicate(request: StudyRequest) -> HttpResponse:
    """A new draft with the same protocol, for those who may make studies."""
    if not request.user.is_staff:
        messages.error(request, "Only staff make studies: ask one of them for a copy.")
        return redirect("ratings:study", request.study.slug)
    copy = lifecycle.duplicate(request.study, request.user)
    messages.success(request, "This is the copy. Its seed is the same: from the same pool it draws the same items.")
    return redirect("ratings:build", copy.slug, "question")


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: StudyRequest) -> HttpResponse:
    """Asks first. Only a draft can go: of it nobody was ever asked anything."""
    if request.method != "POST" and request.study.is_draft:
        return render(request, "ratings/study_delete.html", {"study": request.study})
    try:
        lifecycle.delete_draft(request.study)
    except StudyError as error:
        messages.error(request, str(error))
        return redirect("ratings:study", request.study.slug)
    messages.success(request, f"The draft {request.study.name} is gone.")
    return redirect("ratings:studies")


urls: list[URLPattern] = [
    path("studies/<slug:slug>/stock/", stock, name="stock"),
    path("studies/<slug:slug>/preview/", preview, name="preview"),
    path("studies/<slug:slug>/matrix/", matrix, name="matrix"),
    path("studies/<slug:slug>/empty/", empty, name="empty_cells"),
    path("studies/<slug:slug>/plan.json", plan_json, name="plan_json"),
    path("studies/<slug:slug>/duplicate/", duplicate, name="duplicate"),
    path("studies/<slug:slug>/delete/", delete, name="delete_study"),
]
