"""The start page, which redirects everybody to their work."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from ratings.studies import access


@login_not_required
@require_safe
def redirect_home(request: HttpRequest) -> HttpResponse:
    """Redirect raters to their start page, staff and members to the studies, others to the sign-in page."""
    if not request.user.is_authenticated:
        return redirect("login")
    # Staff first: they may also be members, and their work is the list of studies.
    if request.user.is_staff:
        return redirect("ratings:studies")
    # A person who rates in one study and is a member of another starts with the rating.
    if access.list_raters(request.user).exists():
        return redirect("ratings:desk")
    if access.list_studies(request.user).exists():
        return redirect("ratings:studies")
    return render(request, "ratings/no_study.html")
