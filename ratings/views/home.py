"""The way in: everyone is sent to where their work is."""

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from ratings import access


@login_not_required
def home(request: HttpRequest) -> HttpResponse:
    """Staff to the studies, raters to their next item, strangers to the sign-in page."""
    if not request.user.is_authenticated:
        return redirect("login")
    if request.user.is_staff:
        return redirect("ratings:studies")
    try:
        access.rater_for(request.user)
    except Http404:
        return render(request, "ratings/no_study.html")
    return redirect("ratings:next")
