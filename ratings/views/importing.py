"""Items and ratings from elsewhere, by file: checked first, then imported whole."""

from collections.abc import Callable
from typing import Any, BinaryIO

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings import import_lines, imports, rating_imports, uploads
from ratings.imports import ImportRefused
from ratings.models import Study
from ratings.planning import PlanError
from ratings.studies import StudyError
from ratings.views.guards import StudyRequest, study_page

_SHOWN = 200  # problems told on the page
Checked = imports.Checked | rating_imports.Checked


class UploadForm(forms.Form):
    file = forms.FileField(label="File", max_length=200, error_messages={"required": "Choose a file."})

    def clean_file(self) -> UploadedFile:
        file: UploadedFile = self.cleaned_data["file"]
        if (file.size or 0) > import_lines.MOST_BYTES:
            raise forms.ValidationError(f"The file is larger than {import_lines.MOST_BYTES // 1024**2} MiB.")
        return file


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def import_items(request: StudyRequest) -> HttpResponse:
    """What was imported so far, and a file for more. A draft's can be taken out again."""
    if request.POST.get("do") == "remove":
        return _removed(request)
    study = request.study
    rows = study.imported_items.values("label", "perturbation", "truth").annotate(n=Count("pk")).order_by("label")
    context = {"sources": rows, "imported": sum(row["n"] for row in rows), "may": study.status in imports.INTO}
    return _import(request, "ratings/import_items.html", context, imports.check, imports.take, "ratings:import_items")


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def import_ratings(request: StudyRequest) -> HttpResponse:
    """Who was imported so far, and a file for more."""
    seats = request.study.raters.exclude(imported_as="").annotate(n=Count("assignments__rating")).order_by("number")
    context = {"seats": seats, "may": request.study.status in rating_imports.INTO}
    check, take = rating_imports.check, rating_imports.take
    return _import(request, "ratings/import_ratings.html", context, check, take, "ratings:import_ratings")


def _import(
    request: StudyRequest,
    page: str,
    context: dict[str, Any],
    check: Callable[[Study, BinaryIO], Checked],
    take: Callable[..., Checked],
    back: str,
) -> HttpResponse:
    """Check the file that was sent, or import the one that was checked before; problems are a 422."""
    context |= {"study": request.study, "form": UploadForm(), "may_run": True}
    if request.method != "POST":
        return render(request, page, context)
    owner = f"{request.user.pk}/{request.study.pk}/{back}"
    try:
        if token := request.POST.get("token"):
            return _taken(request, token, owner, take, back)
        context["form"] = form = UploadForm(request.POST, request.FILES)
        if not form.is_valid():
            return render(request, page, context, status=422)
        stream = form.cleaned_data["file"]
        checked = check(request.study, stream.file)
        context |= _told(checked)
        if not checked.problems:
            context |= {"token": uploads.keep(stream.file, owner), "file_name": stream.name}
    except uploads.UploadGone:
        context["refused"] = "The file that was checked is not here any more. Choose it again."
    except ImportRefused as refused:
        context |= {"problems": refused.problems[:_SHOWN], "n_problems": len(refused.problems)}
    except (StudyError, PlanError) as error:
        context["refused"] = str(error)
    wrong = context.get("problems") or context.get("refused")
    return render(request, page, context, status=422 if wrong else 200)


def _taken(request: StudyRequest, token: str, owner: str, take: Callable[..., Checked], back: str) -> HttpResponse:
    with uploads.opened(token, owner) as stream:
        checked = take(request.study, stream, request.user)
    uploads.forget(token)
    n = len(checked.items) if isinstance(checked, imports.Checked) else len(checked.rows)
    noun = "item" if isinstance(checked, imports.Checked) else "rating"
    messages.success(request, f"{n} {noun}{'s' * (n != 1)} imported.")
    return redirect(back, slug=request.study.slug)


def _told(checked: Checked) -> dict[str, Any]:
    return {"checked": checked, "problems": checked.problems[:_SHOWN], "n_problems": len(checked.problems)}


def _removed(request: StudyRequest) -> HttpResponse:
    try:
        count = imports.remove_all(request.study, request.user)
    except StudyError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{count} imported item{'s' * (count != 1)} removed from the draft.")
    return redirect("ratings:import_items", slug=request.study.slug)


urls: list[URLPattern] = [
    path("studies/<slug:slug>/import/", import_items, name="import_items"),
    path("studies/<slug:slug>/import-ratings/", import_ratings, name="import_ratings"),
]
