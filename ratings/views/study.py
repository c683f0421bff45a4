"""Studies for staff: list, make, open, invite, close, unblind."""

from typing import Any, NamedTuple

from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.forms import BoundField
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings import access, studies
from ratings.forms import DocumentForm, StudyForm
from ratings.models import Study
from ratings.planning import PlanError
from ratings.protocols import ProtocolError
from ratings.studies import StudyError
from simulation.access import StaffRequest, staff_only
from simulation.models import Episode, Transition, Twin


class Cell(NamedTuple):
    """A field of the source table, and how many items there are at most: outcomes, and records of evidence."""

    field: BoundField
    heading: str
    outcomes: int
    records: int | None


@staff_only
@require_safe
def study_list(request: StaffRequest) -> HttpResponse:
    return render(request, "ratings/studies.html", {"studies": counted()})


def counted() -> QuerySet[Study]:
    """Studies with the numbers that a list shows."""
    return (
        Study.objects.defer("protocol")
        .annotate(
            n_items=Count("items", distinct=True),
            wanted=Count("items__assignments", distinct=True),
            given=Count("items__assignments__rating", distinct=True),
            simulated=Count(
                "items__assignments__rating", distinct=True, filter=Q(items__assignments__rater__simulated=True)
            ),
        )
        .order_by("-created_at", "-pk")
    )


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def new_study(request: StaffRequest) -> HttpResponse:
    """The document by form or as text. "Check" says what the pool holds of it; "create" makes the draft."""
    pasted = request.POST.get("by") == "document"
    form = StudyForm(request.POST if request.method == "POST" and not pasted else None)
    document = DocumentForm(request.POST if pasted else None, request.FILES if pasted else None)
    sent = document if pasted else form
    if sent.is_valid() and sent.protocol and request.POST.get("do") != "check":
        try:
            study = studies.create_study(sent.protocol, request.user)
            return redirect("ratings:study", slug=study.slug)
        except ProtocolError as error:
            sent.add_problems(error.problems)
    checked = sent.protocol if sent.is_bound and not sent.errors else None
    context = {
        "form": form,
        "document": document,
        "sent": sent,
        "pasted": pasted,
        "rows": _source_rows(form),
        "stock": studies.pool_report(checked) if checked else None,
        "checked": checked,
    }
    return render(request, "ratings/study_new.html", context, status=422 if sent.errors else 200)


@staff_only
@require_POST
def open_study(request: StaffRequest, slug: str) -> HttpResponse:
    said = "The study is open. Make a link for each rater below and send it."
    return _done(request, slug, lambda study: studies.open_study(study, by=request.user), said)


@staff_only
@require_POST
def close_study(request: StaffRequest, slug: str) -> HttpResponse:
    said = "The study is closed. The ratings stay sealed until it is unblinded."
    return _done(request, slug, lambda study: studies.close(study, request.user), said)


@staff_only
@require_POST
def reopen_study(request: StaffRequest, slug: str) -> HttpResponse:
    return _done(request, slug, lambda study: studies.reopen(study, request.user), "The study takes ratings again.")


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def unblind_study(request: StaffRequest, slug: str) -> HttpResponse:
    """Asks first: it cannot be undone."""
    study = access.study_for(request.user, slug)
    if request.method == "POST":
        return _done(request, slug, lambda one: studies.unblind(one, request.user), "The study is unblinded.")
    if study.is_unblinded or study.status == "draft":
        return redirect("ratings:study", slug=slug)
    context = {"study": counted().get(pk=study.pk)}
    return render(request, "ratings/study_unblind.html", context)


@staff_only
@never_cache
@require_POST
def make_link(request: StaffRequest, slug: str, label: str) -> HttpResponse:
    """Shows the link in the answer itself: its token is kept nowhere, so no other page could show it."""
    study = access.study_for(request.user, slug)
    try:
        token = studies.invite_seat(study, label, request.user)
    except StudyError as error:
        messages.error(request, str(error))
        return redirect("ratings:study", slug=slug)
    link = request.build_absolute_uri(reverse("ratings:rater_link", args=[token]))
    return render(request, "ratings/study_link.html", {"study": study, "label": label, "link": link})


def _done(request: StaffRequest, slug: str, verb: Any, said: str) -> HttpResponse:
    """Do it and go back to the study's page, which says what became of it."""
    study = access.study_for(request.user, slug)
    try:
        verb(study)
    except (StudyError, PlanError, ProtocolError) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, said)
    return redirect("ratings:study", slug=slug)


def _source_rows(form: StudyForm) -> list[tuple[str, list[Cell]]]:
    """The source table: a line for each cast, a cell for each perturbation with what there is of it at most."""
    outcomes, records = _outcomes(), _records()
    table: dict[str, list[Cell]] = {}
    for row in form.source_rows():
        plain = row.perturbation == "none"
        heading = "As simulated" if plain else f"{row.perturbation.capitalize()} errors"
        most = outcomes.get((row.cast, row.perturbation), 0)
        table.setdefault(row.cast, []).append(
            Cell(row.field, heading, most, records.get(row.cast, 0) if plain else None)
        )
    return list(table.items())


def _outcomes() -> dict[tuple[str, str], int]:
    """Steps that read differently, and twins. Some may read like others: `pool_report` says exactly how many do not."""
    steps = Transition.objects.filter(accepted=True, episode__counts=True, episode__status__in=Episode.ENDED).order_by()
    plain = steps.values_list("episode__cast").annotate(n=Count("content_sha256", distinct=True))
    twins = Twin.objects.filter(status="done").order_by().values_list("cast", "perturbation").annotate(n=Count("pk"))
    return {(cast, "none"): n for cast, n in plain} | {(cast, wrong): n for cast, wrong, n in twins}


def _records() -> dict[str, int]:
    """Submitted episodes that a classifier has judged, by cast."""
    judged = Episode.objects.filter(status="submitted", counts=True, reviews__isnull=False).order_by()
    return dict(judged.values_list("cast").annotate(n=Count("pk", distinct=True)))
