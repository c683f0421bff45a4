"""Studies made, in four steps or from a document."""

from typing import NamedTuple

from django.db.models import Count
from django.forms import BoundField
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings import studies
from ratings.forms import DocumentForm, StudyForm
from ratings.protocols import ProtocolError
from simulation.access import StaffRequest, staff_only
from simulation.models import Episode, Transition, Twin


class Cell(NamedTuple):
    """A field of the source table, and how many items there are at most: outcomes, and records of evidence."""

    field: BoundField
    heading: str
    outcomes: int
    records: int | None


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


urls: list[URLPattern] = [path("studies/new/", new_study, name="new_study")]
