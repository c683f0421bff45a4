"""The team of a study: members and their roles, for its admins."""

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from ratings.accounts import require_recent_for_post
from ratings.models import Membership
from ratings.studies import StudyError, roles
from ratings.web.decorators import StudyRequest, study_page


class MemberForm(forms.Form):
    who = forms.CharField(label="User name or e-mail address", max_length=254)
    role = forms.ChoiceField(
        label="Role",
        widget=forms.RadioSelect,
        initial="analyst",
        choices=[
            ("analyst", "Analyst: can read the results, and rates by source before unblinding"),
            ("admin", "Study admin: can do everything in this study"),
        ],
    )
    who.widget.attrs |= {"autocomplete": "off", "autocapitalize": "none"}


@study_page("admin")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require_recent_for_post
def show_team(request: StudyRequest) -> HttpResponse:
    form = MemberForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            added = roles.add_member(request.study, form.cleaned_data["who"], form.cleaned_data["role"], request.user)
        except StudyError as error:
            form.add_error("who", str(error))
        else:
            role = added.get_role_display()
            messages.success(request, f"{added.user.get_username()} is now {role} of this study.")
            return redirect("ratings:members", slug=request.study.slug)
    context = {"study": request.study, "form": form, "members": request.study.members.select_related("user")}
    return render(request, "ratings/people_roles.html", context, status=422 if form.errors else 200)


@study_page("admin")
@require_POST
@require_recent_for_post
def remove_member(request: StudyRequest, number: int) -> HttpResponse:
    # Looked up within the study: a number from another study is a 404.
    member = Membership.objects.select_related("user").filter(study=request.study, pk=number).first()
    if member is None:
        raise Http404
    try:
        roles.remove_member(request.study, member, request.user)
    except StudyError as error:
        messages.error(request, str(error))
    return redirect("ratings:members", slug=request.study.slug)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/members/", show_team, name="members"),
    path("studies/<slug:slug>/members/<int:number>/remove/", remove_member, name="remove_member"),
]
