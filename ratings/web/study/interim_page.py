"""The page of interim analyses."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from ratings.results import study_log
from ratings.studies import interim_analysis
from ratings.web.decorators import StudyRequest, study_page


@study_page("analyst")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def show_interim_analysis(request: StudyRequest) -> HttpResponse:
    """Show who may run an interim analysis and the log of earlier ones; a POST runs one."""
    study = request.study
    context = {
        "study": study,
        "may_run": request.role != "analyst",
        "refusal": interim_analysis.explain_refusal(study, request.user),
        "least": interim_analysis.MIN_CHANGED_RATINGS,
        "yes": study.answer_labels[0].lower(),
        "looks": study_log.describe_events(
            study.events.filter(kind="looked").select_related("by").order_by("-at")[:20]
        ),
    }
    # Only a POST runs an analysis: every analysis is logged, but opening the page is not.
    if request.method == "POST":
        try:
            context["look"] = interim_analysis.take_interim_analysis(study, request.user)
        except interim_analysis.InterimNotAllowed as error:
            context["refusal"] = str(error)
            return render(request, "ratings/interim.html", context, status=409)
    return render(request, "ratings/interim.html", context)


urls: list[URLPattern] = [path("studies/<slug:slug>/interim/", show_interim_analysis, name="interim")]
