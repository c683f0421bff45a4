"""The quarantine of a draft: items whose text might reveal their source, each finding in its sentence, and the decisions."""

from typing import NamedTuple

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.blinding.item_names import name_item
from ratings.models import Study
from ratings.protocol import study_protocol
from ratings.studies import pool, quarantine
from ratings.studies.quarantine import DecisionError, HeldItem
from ratings.studies.quarantine_excerpts import Excerpt, build_excerpts
from ratings.web.decorators import StudyRequest, study_page
from wetbench_site.text import format_count

MAX_SHOWN = 50  # undecided items on one page; decided ones leave the list


class _HeldRow(NamedTuple):
    """An item in quarantine as its page shows it."""

    item: HeldItem
    name: str
    excerpts: list[Excerpt]


def _describe_held(item: HeldItem) -> _HeldRow:
    return _HeldRow(item, name_item(item.found.payload), build_excerpts(item))


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def show_quarantine(request: StudyRequest) -> HttpResponse:
    """Show the items that stay out of the study until an admin decides that their text reveals nothing."""
    study = request.study
    # The items of an opened study are frozen, so there is nothing to decide. Each is listed once.
    held = pool.take_inventory(study_protocol.load_protocol(study.protocol), study).held if study.is_draft else []
    quarantined = list({item.digest: item for item in held}.values())
    if request.method == "POST":
        return _save_decision(request, study, quarantined)
    undecided = [item for item in quarantined if not item.decision]
    context = {
        "study": study,
        "role": request.role,
        "may_run": True,
        "held": [_describe_held(item) for item in undecided[:MAX_SHOWN]],
        "more": max(len(undecided) - MAX_SHOWN, 0),
        "decided": study.quarantine.exclude(decision="").select_related("by"),
        "allowed": quarantine.load_names_file().laboratory,
        "left_out": study.quarantine.filter(decision="").count(),
    }
    return render(request, "ratings/quarantine.html", context)


def _save_decision(request: StudyRequest, study: Study, quarantined: list[HeldItem]) -> HttpResponse:
    """Decide about one item with the meanings of its names, or about all selected items at once."""
    requested, decision = set(request.POST.getlist("item")), request.POST.get("decision", "")
    items = [item for item in quarantined if item.digest in requested]
    try:
        if not requested:
            raise DecisionError("Select at least one item first")
        if len(items) < len(requested):
            raise DecisionError(
                "An item is no longer in quarantine, or the study has been opened. Nothing was changed: reload the page"
            )
        # Names without a declaration are sent as blanks, so both lists have the same length.
        things = dict(zip(request.POST.getlist("name"), request.POST.getlist("thing"), strict=False))
        with transaction.atomic():
            for item in items:
                quarantine.record_decision(
                    study, item, decision, request.user, things if decision == "released" else {}
                )
    except DecisionError as error:
        messages.error(request, str(error))
    else:
        n_left = sum(not item.decision for item in quarantined) - sum(not item.decision for item in items)
        done = f"{format_count(len(items), 'item')} {decision}."
        messages.success(request, f"{done} The decision is logged. {format_count(n_left, 'item')} left to decide.")
    return redirect("ratings:quarantine", study.slug)


urls: list[URLPattern] = [path("studies/<slug:slug>/quarantine/", show_quarantine, name="quarantine")]
