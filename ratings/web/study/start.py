"""The start page after sign-in: what needs the user, the three steps of an empty site, and their studies."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from ratings.models import ImportedItem, Invitation, Rater
from ratings.studies import access, attention
from ratings.studies.attention import IDLE_DAYS, Need
from ratings.web.decorators import StudyRequest, staff_or_member
from ratings.web.study.study_list import add_list_counts
from simulation.models import Job, Transition
from wetbench_site.text import format_count

_MAX_STUDIES = 5


class NeedText(NamedTuple):
    """How a kind of need is shown: `text` continues the name of the study, job or run. `action` is the link to `page`.

    `others` is the query of the list of studies that has those that are not listed here; "" if the list cannot show them.
    """

    tone: str
    label: str
    text: str  # with {n}: the number of things, or {s}: "" for one and "s" for more
    action: str
    page: str
    others: str = ""


_TEXTS: Mapping[str, NeedText] = {
    "failed_job": NeedText("danger", "Job", "failed.", "See why and try again", "ratings:job"),
    "blocked_run": NeedText("danger", "Run", "cannot continue: {n} blocked.", "See what blocks it", "simulation:run"),
    "failed_run": NeedText("danger", "Run", "has failures: {n} failed.", "See why and retry", "simulation:run"),
    "failed_audit": NeedText(
        "danger", "Blinding", "did not pass its blinding audit.", "See what it found", "ratings:audit"
    ),
    "overdue_study": NeedText(
        "warn", "Deadline", "has passed its deadline.", "Close the study", "ratings:study", "status=open"
    ),
    "complete_study": NeedText(
        "ok", "Complete", "All raters have rated everything.", "Check and close", "ratings:study", "status=open"
    ),
    "audit": NeedText(
        "warn", "Blinding", "has no blinding audit yet.", "Start the audit", "ratings:audit", "status=open"
    ),
    "idle_raters": NeedText(
        "warn", "Raters", "{n} rater{s} without an answer for {days} days.", "Send a reminder", "ratings:raters"
    ),
    "waiting_invitations": NeedText(
        "warn", "Raters", "{n} invitation{s} not accepted for {days} days.", "Send again or replace", "ratings:raters"
    ),
    "free_places": NeedText(
        "info", "Raters", "{n} place{s} without a valid invitation.", "Invite raters", "ratings:raters"
    ),
    "closed_study": NeedText(
        "info",
        "Closed",
        "is closed and still sealed.",
        "Unblind to see the results",
        "ratings:unblind_study",
        "status=closed",
    ),
    "vetting": NeedText("info", "Vetting", "to vet before studies can use them.", "Vet", "ratings:vetting"),
    "draft": NeedText("", "Draft", "has not been opened.", "Continue the draft", "ratings:study", "status=draft"),
}


class NeedLine(NamedTuple):
    """One line of the page. `more` is the address of the list with further ones, "" if there are none to link to."""

    tone: str
    label: str
    name: str
    text: str
    action: str
    address: str
    more: str


class SetupStep(NamedTuple):
    """One of the three steps of an empty site. `address` is the page where it is done, "" while it cannot be done yet."""

    title: str
    text: str
    action: str
    address: str
    is_done: bool
    is_next: bool = False


@staff_or_member
@never_cache
@require_safe
def show_start(request: StudyRequest) -> HttpResponse:
    """Show what needs this user, and their studies. What is already done is not shown."""
    user = request.user
    needs = attention.list_needs(user)
    studies = access.list_studies(user).defer("protocol", "guide").order_by("-created_at", "-pk")
    context: dict[str, Any] = {
        "needs": _describe_needs(needs),
        "steps": _list_steps(user) if user.is_staff else [],
        "studies": add_list_counts(studies[:_MAX_STUDIES]),
        "rated": access.list_raters(user).filter(withdrawn_at=None, finished_at=None, study__status="open").count(),
        "job": _find_demo_job() if user.is_staff and not settings.PRODUCTION else None,
        "may_make": user.is_staff,
    }
    return render(request, "ratings/start.html", context)


def _find_demo_job() -> Job | None:
    """Return the job that creates the example of `make demo`. None if there is none, or it is done."""
    last = Job.objects.filter(kind="demo", subject="demo").defer("result").order_by("-pk").first()
    return last if last and last.status != "done" else None


def _describe_needs(needs: list[Need]) -> list[NeedLine]:
    lines = []
    for number, need in enumerate(needs, 1):
        text = _TEXTS[need.kind]
        is_last_of_kind = number == len(needs) or needs[number].kind != need.kind
        query = text.others if need.more and is_last_of_kind else ""
        more = f"{reverse('ratings:studies')}?{query}" if query else ""
        address = reverse(text.page, args=[need.target] if need.target else [])
        name = need.name or format_count(need.number, "twin")
        shown = text.text.format(n=need.number, s="s" * (need.number != 1), days=IDLE_DAYS)
        lines.append(NeedLine(text.tone, text.label, name, shown, text.action, address, more))
    return lines


def _list_steps(user: User) -> list[SetupStep]:
    """Return the three steps to a first study with raters; none once all of them are done."""
    studies = access.list_managed_studies(user).defer("protocol", "guide").order_by("-pk")
    keys = studies.order_by().values("pk")
    draft, opened = studies.filter(status="draft").first(), studies.exclude(status="draft").first()
    has_items = Transition.objects.exists() or ImportedItem.objects.filter(study__in=keys).exists()
    is_invited = Exists(Invitation.objects.filter(rater=OuterRef("pk")))
    has_raters = Rater.objects.filter(is_invited | Q(user__isnull=False), study__in=keys).exists()
    build, invite = reverse("ratings:new_study"), ""
    if draft:
        build = reverse("ratings:study", args=[draft.slug])
    if opened:
        invite = reverse("ratings:raters", args=[opened.slug])
    steps = [
        SetupStep(
            "Get items to rate",
            "Run a simulation: raters will judge its steps. Or bring your own items: create a study and import them there.",
            "Start a run",
            reverse("simulation:new_episodes"),
            has_items,
        ),
        SetupStep(
            "Build a study and open it",
            "Choose the question, the items, the raters and what they see.",
            f"Continue {draft.name}" if draft else "New study",
            build,
            opened is not None,
        ),
        SetupStep(
            "Invite raters",
            "Send invitations by e-mail, or create a personal link for each rater.",
            "Invite raters",
            invite,
            has_raters,
        ),
    ]
    first_open = next((number for number, step in enumerate(steps) if not step.is_done), None)
    if first_open is None:
        return []
    return [step._replace(is_next=number == first_open) for number, step in enumerate(steps)]


urls: list[URLPattern] = [path("start/", show_start, name="start")]
