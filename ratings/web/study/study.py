"""The list of studies, the status changes of one study (open, pause, resume, close, reopen, unblind), and its instructions."""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.accounts import reauthentication
from ratings.models import Item, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol import PlanError, ProtocolError
from ratings.studies import StudyError, access, lifecycle
from ratings.studies.progress import stop_rule
from ratings.web.decorators import GuardedView, StudyRequest, staff_or_member, study_page
from ratings.web.study.step_forms import GuideForm

PER_PAGE = 25


@staff_or_member
@require_safe
def list_studies(request: StudyRequest) -> HttpResponse:
    """List the studies in which this user has a role. Staff can create new ones."""
    own_studies = access.list_studies(request.user).defer("protocol", "guide").order_by("-created_at", "-pk")
    page = Paginator(own_studies, PER_PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "studies": add_list_counts(page), "may_make": request.user.is_staff}
    return render(request, "ratings/studies.html", context)


def add_list_counts(rows: Iterable[Study]) -> list[Any]:
    """Return these studies with the numbers shown in a list, in two more queries. Only ratings that count are counted."""
    studies = list(rows)
    keys = [study.pk for study in studies]
    # Two grouped queries: annotating both counts on one query would multiply items by ratings.
    items = dict(Item.objects.filter(study__in=keys).values_list("study").annotate(n=Count("pk")))
    countable = Q(assignment__occasion=FIRST, assignment__released_at__isnull=True, assignment__surplus=False)
    ratings = Rating.objects.filter(
        countable, assignment__rater__study__in=keys, assignment__rater__dropped=False
    ).order_by()
    by_study = ratings.values_list("assignment__rater__study")
    simulated = Count("pk", filter=Q(assignment__rater__simulated=True))
    counts_by_study = {key: numbers for key, *numbers in by_study.annotate(n=Count("pk"), simulated=simulated)}
    for study in studies:
        study.n_items = items.get(study.pk, 0)  # type: ignore[attr-defined]  # set like an annotation
        study.wanted = study.n_items * study.ratings_per_item  # type: ignore[attr-defined]
        study.given, study.simulated = counts_by_study.get(study.pk, (0, 0))  # type: ignore[attr-defined]
    return studies


def _make_status_view(change_status: Callable[[Study, Any], object], success_message: str) -> GuardedView:
    """Return a view that makes one status change and returns to the study's page with a message."""

    @study_page("admin")
    @require_POST
    def change_study_status(request: StudyRequest) -> HttpResponse:
        try:
            change_status(request.study, request.user)
        except ProtocolError as error:
            messages.error(request, f"The study cannot be opened: {'; '.join(error.problems)}")
        except (StudyError, PlanError) as error:
            messages.error(request, str(error))
        else:
            messages.success(request, success_message)
        return redirect("ratings:study", slug=request.study.slug)

    return change_study_status


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def unblind_study(request: StudyRequest) -> HttpResponse:
    """Ask for confirmation and the password, then unblind the study. This cannot be undone."""
    study = request.study
    if study.status != "closed":
        if not study.is_unblinded:
            messages.error(request, "Close the study first: only a closed study can be unblinded.")
        return redirect("ratings:study", slug=study.slug)
    # A session left open is not enough for a step that cannot be undone.
    if request.method == "POST" and reauthentication.verify_identity(request, request.POST.get("password", "")):
        lifecycle.unblind_study(study, request.user)
        messages.success(request, "The study is unblinded.")
        return redirect("ratings:study", slug=study.slug)
    refused = request.method == "POST"
    context = {
        "study": add_list_counts(Study.objects.filter(pk=study.pk))[0],
        "needs_password": reauthentication.has_password(request),
        "refused": refused,
        "stop": stop_rule.evaluate_stop_rule(study),
    }
    return render(request, "ratings/study_unblind.html", context, status=422 if refused else 200)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_guide(request: StudyRequest) -> HttpResponse:
    """Show all versions of the study's own instructions; while the study is open or paused, accept a new one."""
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
            messages.success(request, f"Raters now see version {number} of the instructions.")
            return redirect("ratings:study_guide", slug=study.slug)
    context = {"study": study, "form": form, "guides": study.guides.select_related("by").order_by("-number")}
    return render(request, "ratings/study_guide.html", context, status=422 if form.errors else 200)


def _open_study(study: Study, by: Any) -> None:
    # `open_study` takes the user by keyword, the other status changes by position.
    lifecycle.open_study(study, by=by)


urls: list[URLPattern] = [
    path("studies/", list_studies, name="studies"),
    path(
        "studies/<slug:slug>/open/",
        _make_status_view(_open_study, "The study is open. You can now invite raters."),
        name="open_study",
    ),
    path(
        "studies/<slug:slug>/pause/",
        _make_status_view(
            lifecycle.pause_study, "The study is paused. Raters see a notice, and none of their answers is lost."
        ),
        name="pause_study",
    ),
    path(
        "studies/<slug:slug>/resume/",
        _make_status_view(lifecycle.resume_study, "The study accepts ratings again."),
        name="resume_study",
    ),
    path(
        "studies/<slug:slug>/close/",
        _make_status_view(lifecycle.close_study, "The study is closed. The ratings stay sealed until it is unblinded."),
        name="close_study",
    ),
    path(
        "studies/<slug:slug>/reopen/",
        _make_status_view(lifecycle.reopen_study, "The study accepts ratings again."),
        name="reopen_study",
    ),
    path("studies/<slug:slug>/unblind/", unblind_study, name="unblind_study"),
    path("studies/<slug:slug>/guide/", edit_guide, name="study_guide"),
]
