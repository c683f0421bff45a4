"""Seats, invitations and members of a study, for its admins."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from ratings import inviting
from ratings.studies import StudyError
from ratings.views.guards import StudyRequest, study_page


@study_page("admin")
@never_cache
@require_POST
def make_link(request: StudyRequest, label: str) -> HttpResponse:
    """Shows the link in the answer itself: its token is kept nowhere, so no other page could show it."""
    study = request.study
    try:
        token = inviting.invite_seat(study, label, request.user)
    except StudyError as error:
        messages.error(request, str(error))
        return redirect("ratings:study", slug=study.slug)
    link = request.build_absolute_uri(reverse("ratings:rater_link", args=[token]))
    return render(request, "ratings/study_link.html", {"study": study, "label": label, "link": link})


urls: list[URLPattern] = [path("studies/<slug:slug>/raters/<slug:label>/link/", make_link, name="make_link")]
