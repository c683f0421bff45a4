"""The public page of a study: the form for its admins with a preview, and the page itself, which needs no sign-in."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_safe

from ratings.blinding import item_view
from ratings.models import PublicPage, Study
from ratings.protocol import study_protocol
from ratings.raters import practice
from ratings.studies import StudyError, designs, progress, public_page
from ratings.web.decorators import StudyRequest, study_page

_NO_ROWS = {"autocomplete": "off"}


def _build_text_field(rows: int, **options: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": rows}) if rows else forms.TextInput(attrs=_NO_ROWS)
    return forms.CharField(widget=widget, required=False, **options)


class PublicPageForm(forms.Form):
    """The texts of the page. Words that would reveal a source or a planted error are errors of their line."""

    about = _build_text_field(8, label="What the study is about", max_length=5000, help_text="In your own words: why you ask, and what a rater does. Leave an empty line between paragraphs. Do not mention models, sources or how many items are wrong. Needed to turn the page on.")  # fmt: skip
    who = _build_text_field(4, label="Who is asked", max_length=2000, help_text="For example the field and the experience that raters need. Needed to turn the page on.")  # fmt: skip
    duration = _build_text_field(0, label="Time needed", max_length=200, help_text="Leave blank to show an estimate from the number of items.")  # fmt: skip
    payment = _build_text_field(
        0, label="Payment", max_length=300, help_text="Leave blank to show nothing about payment."
    )
    contact = _build_text_field(0, label="Contact", max_length=200, help_text="Whom people can ask, and how they get a personal link: a name and an e-mail address. Needed to turn the page on.")  # fmt: skip
    questions = _build_text_field(8, label="More questions and answers", max_length=5000, help_text="A question on one line, its answer on the next, then an empty line. They are shown after the usual ones (stopping, changing answers, withdrawing, data).")  # fmt: skip
    shows_example = forms.BooleanField(label="Show a practice item as an example, without its answer", required=False)

    def __init__(self, page: PublicPage, data: Any = None) -> None:
        super().__init__(data, initial={name: getattr(page, name) for name in (*public_page.TEXTS, "shows_example")})
        self.study = page.study

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        for name in public_page.TEXTS:
            # As browsers send line breaks.
            values[name] = text = values.get(name, "").replace("\r\n", "\n")
            problems = public_page.find_forbidden_words(self.study, text)
            problems += public_page.find_question_problems(text) if name == "questions" else []
            has_lines = isinstance(self.fields[name].widget, forms.Textarea)
            for line, message in sorted(problems):
                self.add_error(name, ValidationError(f"Line {line}: {message}" if has_lines else message))
        return values


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_public_page(request: StudyRequest) -> HttpResponse:
    """Show the texts, the link and the state of the page; a POST saves the texts, turns the page on or off, or replaces its link."""
    page = public_page.load_page(request.study)
    action = request.POST.get("action", "")
    form = PublicPageForm(page, request.POST if action == "save" else None)
    status = 200
    if action == "save":
        if form.is_valid() and _save_texts(request, page.is_on, form):
            return redirect("ratings:public_page", request.study.slug)
        status = 422
    elif action:
        _change_page(request, action)
        return redirect("ratings:public_page", request.study.slug)
    link = f"{settings.SITE_URL or request.build_absolute_uri('/').rstrip('/')}{reverse('ratings:about', args=[page.token])}"
    context = {
        "study": request.study,
        "page": page,
        "form": form,
        "link": link,
        "doubtful": public_page.find_doubtful_words(page),
        "missing": public_page.list_missing(page),
    }
    return render(request, "ratings/public_page.html", context, status=status)


def _save_texts(request: StudyRequest, is_on: bool, form: PublicPageForm) -> bool:
    try:
        is_changed = public_page.save_texts(request.study, form.cleaned_data, request.user)
    except StudyError as error:
        form.add_error(None, str(error))
        return False
    shown = "Everybody with the link sees the new text." if is_on else "Look at the preview, then turn the page on."
    messages.success(request, f"Saved. {shown}" if is_changed else "Nothing has changed.")
    return True


def _change_page(request: StudyRequest, action: str) -> None:
    try:
        if action in ("on", "off"):
            public_page.set_on(request.study, action == "on", request.user)
            text = (
                "The page is public: copy its link and send it."
                if action == "on"
                else "The page is off: its link no longer works."
            )
        elif action == "link":
            public_page.replace_link(request.study, request.user)
            text = "The page has a new link; the old one no longer works."
        else:
            raise StudyError("This button does not exist. Reload the page")
    except StudyError as error:
        messages.error(request, f"{error}.")
    else:
        messages.success(request, text)


@study_page("admin")
@require_safe
def preview_public_page(request: StudyRequest) -> HttpResponse:
    """Show the page to an admin as it would be public, whether it is on or off."""
    page = public_page.load_page(request.study)
    return _render_page(request, page, is_preview=True)


@login_not_required
@require_safe
def show_public_page(request: HttpRequest, token: str) -> HttpResponse:
    """Show the page to anybody who has its link; 404 if it is off, as for a link that never existed."""
    page = public_page.find_page(token)
    if page is None:
        raise Http404
    return _render_page(request, page)


def _render_page(request: HttpRequest, page: PublicPage, is_preview: bool = False) -> HttpResponse:
    study = page.study
    # Listed one by one: the template gets neither the study nor its protocol, so that it cannot show more.
    protocol = study_protocol.load_protocol(study.protocol)
    items = public_page.count_items_of_a_rater(study)
    context: dict[str, Any] = {
        "name": study.name,
        "question": study.question,
        "answers": study.answer_labels,
        "protocol": {"consent": protocol.consent, "withdrawal": protocol.withdrawal},
        "state": _choose_state(study),
        "deadline": study.deadline,
        "items": items,
        "is_about": not designs.is_crossed(study),
        "duration": page.duration or progress.describe_time_needed(study, items),
        "is_preview": is_preview,
        "slug": study.slug if is_preview else "",
        "page": {name: getattr(page, name) for name in ("about", "who", "payment", "contact")},
        "questions": public_page.parse_questions(page.questions),
        **(_build_example(study) if page.shows_example else {}),
    }
    response = render(request, "ratings/about.html", context)
    # Not in search engines, and in no cache: a page that is turned off must be gone.
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    response["Cache-Control"] = "no-store"
    return response


def _choose_state(study: Study) -> str:
    """Return "draft", "open", "overdue", "paused" or "closed", which an unblinded study is too."""
    if study.status in ("closed", "unblinded"):
        return "closed"
    # A study does not close by itself when its deadline has passed.
    return "overdue" if study.is_open and progress.is_deadline_over(study) else study.status


def _build_example(study: Study) -> dict[str, Any]:
    """Return the first practice item as the study's first arm shows it, without its answer."""
    item = practice.load_items(study.kind)[0]
    arm = designs.list_arms_of(study_protocol.load_protocol(study.protocol))[0]
    return item_view.build_item_view(item.payload, item.context, layout=arm.layout, stage="first")


urls: list[URLPattern] = [
    path("studies/<slug:slug>/public-page/", edit_public_page, name="public_page"),
    path("studies/<slug:slug>/public-page/preview/", preview_public_page, name="public_page_preview"),
    path("about/<str:token>/", show_public_page, name="about"),
]
