"""The list of studies, and the moves of one: open, pause, resume, close, reopen, unblind; and new instructions."""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.accounts import reauth
from ratings.models import Item, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol import PlanError, ProtocolError
from ratings.studies import StudyError, access, lifecycle
from ratings.studies.progress import stopping
from ratings.web.guards import Guarded, StudyRequest, staff_or_member, study_page
from ratings.web.study.forms import GuideForm

PER_PAGE = 25


@staff_or_member
@require_safe
def study_list(request: StudyRequest) -> HttpResponse:
    """The studies this user has a role in. Staff may make new ones."""
    own = access.studies_of(request.user).defer("protocol", "guide").order_by("-created_at", "-pk")
    page = Paginator(own, PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "studies": counted(page), "may_make": request.user.is_staff}
    return render(request, "ratings/studies.html", context)


def counted(rows: Iterable[Study]) -> list[Any]:
    """These studies with the numbers that a list shows, in two more queries; only what counts is counted."""
    studies = list(rows)
    keys = [study.pk for study in studies]
    items = dict(Item.objects.filter(study__in=keys).values_list("study").annotate(n=Count("pk")))
    live = Q(assignment__occasion=FIRST, assignment__released_at__isnull=True, assignment__surplus=False)
    ratings = Rating.objects.filter(
        live, assignment__rater__study__in=keys, assignment__rater__dropped=False
    ).order_by()
    by_study = ratings.values_list("assignment__rater__study")
    simulated = Count("pk", filter=Q(assignment__rater__simulated=True))
    given = {key: numbers for key, *numbers in by_study.annotate(n=Count("pk"), simulated=simulated)}
    for study in studies:
        study.n_items = items.get(study.pk, 0)  # type: ignore[attr-defined]  # as an annotation would be
        study.wanted = study.n_items * study.ratings_per_item  # type: ignore[attr-defined]
        study.given, study.simulated = given.get(study.pk, (0, 0))  # type: ignore[attr-defined]
    return studies


def _mover(move: Callable[[Study, Any], object], said: str) -> Guarded:
    """A view that does one move and goes back to the study's page, which says what became of it."""

    @study_page("admin")
    @require_POST
    def moved(request: StudyRequest) -> HttpResponse:
        try:
            move(request.study, request.user)
        except ProtocolError as error:
            messages.error(request, f"The document cannot be opened: {'; '.join(error.problems)}")
        except (StudyError, PlanError) as error:
            messages.error(request, str(error))
        else:
            messages.success(request, said)
        return redirect("ratings:study", slug=request.study.slug)

    return moved


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def unblind_study(request: StudyRequest) -> HttpResponse:
    """Asks first, and for the password once more: it cannot be undone."""
    study = request.study
    if study.status != "closed":
        if not study.is_unblinded:
            messages.error(request, "Close the study first: only a closed study can be unblinded.")
        return redirect("ratings:study", slug=study.slug)
    if request.method == "POST" and reauth.confirmed(request, request.POST.get("password", "")):
        lifecycle.unblind(study, request.user)
        messages.success(request, "The study is unblinded.")
        return redirect("ratings:study", slug=study.slug)
    refused = request.method == "POST"
    context = {
        "study": counted(Study.objects.filter(pk=study.pk))[0],
        "needs_password": reauth.needs_password(request),
        "refused": refused,
        "stop": stopping.look(study),
    }
    return render(request, "ratings/study_unblind.html", context, status=422 if refused else 200)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def study_guide(request: StudyRequest) -> HttpResponse:
    """The study's own instructions in all their versions; new ones while it runs."""
    study = request.study
    form = GuideForm(request.POST if request.method == "POST" else None, initial={"guide": study.guide})
    if form.is_valid():
        try:
            number = lifecycle.revise_guide(study, form.cleaned_data["guide"], request.user)
        except ProtocolError as error:
            form.add_error("guide", error.problems[0].partition(": ")[2])
        except StudyError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"Raters are shown version {number} of the instructions.")
            return redirect("ratings:study_guide", slug=study.slug)
    context = {"study": study, "form": form, "guides": study.guides.select_related("by").order_by("-number")}
    return render(request, "ratings/study_guide.html", context, status=422 if form.errors else 200)


def _open(study: Study, by: Any) -> None:
    lifecycle.open_study(study, by=by)


urls: list[URLPattern] = [
    path("studies/", study_list, name="studies"),
    path("studies/<slug:slug>/open/", _mover(_open, "The study is open. Invite its raters."), name="open_study"),
    path(
        "studies/<slug:slug>/pause/",
        _mover(lifecycle.pause, "The study is paused: raters are told so, and nothing they did is lost."),
        name="pause_study",
    ),
    path(
        "studies/<slug:slug>/resume/",
        _mover(lifecycle.resume, "The study takes ratings again."),
        name="resume_study",
    ),
    path(
        "studies/<slug:slug>/close/",
        _mover(lifecycle.close, "The study is closed. The ratings stay sealed until it is unblinded."),
        name="close_study",
    ),
    path(
        "studies/<slug:slug>/reopen/",
        _mover(lifecycle.reopen, "The study takes ratings again."),
        name="reopen_study",
    ),
    path("studies/<slug:slug>/unblind/", unblind_study, name="unblind_study"),
    path("studies/<slug:slug>/guide/", study_guide, name="study_guide"),
]
