"""The help: a contents page with a search, the documents, and their pictures. For staff and for people with a role in a study."""

from typing import NamedTuple

from django import forms
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from ratings.web.decorators import StudyRequest, staff_or_member
from wetbench_site.help import contents, documents


class SearchForm(forms.Form):
    q = forms.CharField(label="Search the help", max_length=100, required=False)
    q.widget.attrs |= {"type": "search", "autocomplete": "off", "placeholder": "Search the help"}


# Raters see none of it: the documents explain which errors are planted and how often, which could change what raters look for.
@staff_or_member
@require_safe
def show_contents(request: StudyRequest) -> HttpResponse:
    """Show all documents by reader or, with `?q=`, the passages that contain every word of it."""
    form = SearchForm(request.GET if "q" in request.GET else None)
    query = form.cleaned_data["q"].strip() if form.is_valid() else ""
    context = {
        "form": form,
        "query": query,
        "result": documents.search_documents(query) if query else None,
        "most": documents.MAX_RESULTS,
        "groups": [
            (group, [_build_line(entry.name, entry.purpose) for entry in group.entries]) for group in contents.GROUPS
        ],
        "decisions": [_build_line(name) for name in contents.list_decisions()],
    }
    return render(request, "help/contents.html", context, status=422 if form.errors else 200)


class DocumentLine(NamedTuple):
    """A document in the list of contents."""

    name: str
    title: str
    purpose: str


def _build_line(name: str, purpose: str = "") -> DocumentLine:
    document = documents.load_document(name)
    assert document
    return DocumentLine(name, document.title, purpose)


@staff_or_member
@require_safe
def show_document(request: StudyRequest, name: str) -> HttpResponse:
    document = documents.load_document(name)
    if document is None:
        raise Http404
    is_decision = name in contents.list_decisions()
    context = {"document": document, "is_decision": is_decision, "form": SearchForm()}
    return render(request, "help/document.html", context)


@staff_or_member
@require_safe
def send_picture(request: StudyRequest, name: str) -> HttpResponseBase:
    """Send a picture of the documents."""
    # Compared with the names of existing files, so that no name from an address becomes a path.
    picture = next((picture for picture in contents.list_pictures() if picture.name == name), None)
    if picture is None:
        raise Http404
    return FileResponse(picture.open("rb"), content_type="image/png")


urls: list[URLPattern] = [
    path("help/", show_contents, name="help"),
    path("help/pictures/<str:name>", send_picture, name="help_picture"),
    path("help/<slug:name>/", show_document, name="help_document"),
]
