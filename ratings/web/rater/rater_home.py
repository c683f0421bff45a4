"""A rater's entry and exit pages: the list of studies, consent, the guide, the last page, withdrawal."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.contrib import messages
from django.db import transaction
from django.db.models import Count, F, Max, Q, QuerySet
from django.db.models.functions import Coalesce, Greatest
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.models import TRANSITION, Rater, Study
from ratings.protocol import StudyProtocol, study_protocol
from ratings.raters import item_review, own_results, practice
from ratings.rating import next_item
from ratings.studies import StudyError, access, designs, running_raters
from ratings.web.account import profile
from ratings.web.decorators import RaterRequest, rater_page, redirect_after_post, study_rater_page
from ratings.web.rater import own_answers, practice_pages, review_pages
from ratings.web.rater.rating_page import render_study_page


class RaterStudyLine(NamedTuple):
    """A study as its rater sees it.

    `state` is "work", "washout", "all rated", "finished", "paused", "closed", "withdrawn", "result" or "review". `total` is None in a
    pool study without a limit per rater: the number of items to come is then unknown.
    """

    rater: Rater
    state: str
    done: int
    total: int | None
    opens: datetime | None = None  # crossover, between the sessions: when session 2 can be started


@rater_page
@require_safe
def list_my_studies(request: RaterRequest) -> HttpResponse:
    """List the rater's studies. A rater with one study and work in it is redirected there, unless `?pause` or `?all` is given."""
    lines = [_build_study_line(rater) for rater in _with_progress(access.list_raters(request.user))]
    if len(lines) == 1 and lines[0].state == "work" and not {"pause", "all"} & request.GET.keys():
        return redirect("ratings:next", lines[0].rater.code)
    return render(request, "ratings/desk.html", {"lines": lines, "paused": "pause" in request.GET})


def _with_progress(raters: QuerySet[Rater]) -> QuerySet[Rater]:
    """Annotate the raters with rated, total and session counts, newest study first."""
    # A released assignment counts only if it was rated before.
    rated = Q(assignments__rating__isnull=False)
    assigned = Q(assignments__released_at__isnull=True) | rated
    session_one = Q(assignments__session=1)
    # Washout starts after the last answer of session 1, including later corrections.
    submitted_at = "assignments__rating__submitted_at"
    answered_at = Greatest(submitted_at, Coalesce("assignments__rating__revised_at", submitted_at))
    annotated = raters.annotate(
        done=Count("assignments", filter=rated),
        total=Count("assignments", filter=assigned),
        left_of_first=Count("assignments", filter=session_one & Q(assignments__released_at__isnull=True) & ~rated),
        first_ended=Max(answered_at, filter=session_one),
        begun_second=Count("assignments", filter=Q(assignments__session=2, assignments__opened_at__isnull=False)),
    )
    return annotated.order_by(F("study__opened_at").desc(nulls_last=True), "-study_id")


def _build_study_line(rater: Any) -> RaterStudyLine:
    protocol = study_protocol.load_protocol(rater.study.protocol)
    total = protocol.items_per_rater if protocol.design == "pool" else rater.total
    state = _choose_state(rater, protocol, total)
    # Once an item of session 2 was shown, the washout is over for good.
    has_ended_first = protocol.is_crossover and not (rater.left_of_first or rater.begun_second) and rater.first_ended
    if state == "work" and has_ended_first:
        opens = rater.first_ended + timedelta(days=protocol.washout_days)
        if timezone.now() < opens:
            return RaterStudyLine(rater, "washout", rater.done, total, opens)
    return RaterStudyLine(rater, state, rater.done, total)


def _choose_state(rater: Any, protocol: StudyProtocol, total: int | None) -> str:
    # The order matters: the first state that applies decides what the rater is offered.
    if rater.withdrawn_at:
        return "withdrawn"
    if rater.study.is_unblinded and (protocol.feedback or protocol.review):
        return "result" if protocol.feedback else "review"
    if rater.study.status in ("closed", "unblinded"):
        return "closed"
    if rater.finished_at:
        return "finished"
    if not rater.study.is_open:
        return "paused"
    return "all rated" if total is not None and rater.done >= total > 0 else "work"


@study_rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def ask_consent(request: RaterRequest) -> HttpResponse:
    """Ask for consent if it was not given with the invitation. No item is shown or answer stored before."""
    rater = request.rater
    if rater.consented_at or not _can_work(rater):
        return redirect("ratings:next", rater.code)
    if request.method == "POST" and request.POST.get("consent") == "on":
        # The filter keeps the time of the first consent if the form is sent twice.
        Rater.objects.filter(pk=rater.pk, consented_at__isnull=True).update(consented_at=timezone.now())
        return redirect_after_post("ratings:next", rater.code)
    is_unticked = request.method == "POST"
    return render_study_page(request, "ratings/agree.html", {"missing": is_unticked}, 422 if is_unticked else 200)


@study_rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def show_guide(request: RaterRequest) -> HttpResponse:
    """Show the instructions. Continuing from here records that the rater has read this version."""
    rater = request.rater
    if not _can_work(rater):
        return redirect("ratings:next", rater.code)
    if not rater.consented_at:
        return redirect("ratings:agree", rater.code)
    if request.method == "POST":
        Rater.objects.filter(pk=rater.pk).update(guide_seen=rater.study.guide_version)
        if practice.is_pending(rater):
            return redirect_after_post("ratings:practice", rater.code)
        practice.finish_practice(rater)
        return redirect_after_post("ratings:next", rater.code)
    context = {
        "asks_practice": practice.count_requested(rater) if practice.is_pending(rater) else 0,
        "practised": practice.get_result(rater),
        "changed": 0 < rater.guide_seen < rater.study.guide_version,
        "screen": _list_screen_features(rater),
    }
    return render_study_page(request, "ratings/guide.html", context)


def _list_screen_features(rater: Rater) -> dict[str, bool]:
    """Return what the guide must explain about this rater's screen; about all screens if they change from item to item."""
    protocol = study_protocol.load_protocol(rater.study.protocol)
    arms = [next_item.get_arm(rater)] if protocol.display.by == "rater" else designs.list_arms_of(protocol)
    return {
        "always": any(arm.marks == "always" for arm in arms),
        "if_not": any(arm.marks == "if_not_plausible" for arm in arms),
        "twice": rater.study.kind == TRANSITION and any(arm.layout == "confirm" for arm in arms),
        "mixed": len(arms) > 1,
    }


@study_rater_page
@require_safe
def show_last_page(request: RaterRequest) -> HttpResponse:
    """Show the last page: the own answers, which can be changed until Finish is pressed or the study closes."""
    rater = request.rater
    if rater.withdrawn_at or (_can_work(rater) and not rater.finished_at and _has_work(rater)):
        return redirect("ratings:next", rater.code)
    may_change = _can_work(rater) and rater.finished_at is None
    context = {
        **own_answers.build_list(rater, request.GET, may_change)._asdict(),
        "may_change": may_change,
        "shows_result": own_results.is_available(rater),
        "may_review": item_review.is_offered(rater),
    }
    return render_study_page(request, "ratings/done.html", context)


@study_rater_page
@require_POST
def finish_rating(request: RaterRequest) -> HttpResponse:
    """End the rater's work; nothing can be changed afterwards. Ignored while items are left or the study is not open."""
    rater = request.rater
    if not _can_work(rater) or _has_work(rater):
        return redirect_after_post("ratings:next", rater.code)
    with transaction.atomic():
        # Waits for an answer that is being saved; no further one can be saved.
        Study.objects.select_for_update().get(pk=rater.study_id)
        Rater.objects.filter(pk=rater.pk, finished_at__isnull=True).update(finished_at=timezone.now())
    return redirect_after_post("ratings:done", rater.code)


@study_rater_page
@require_http_methods(["GET", "HEAD", "POST"])
def withdraw_from_study(request: RaterRequest) -> HttpResponse:
    """Show what happens to the answers and ask for confirmation, then withdraw for good."""
    rater = request.rater
    if rater.withdrawn_at or rater.study.status not in ("open", "paused"):
        return redirect("ratings:desk")
    if request.method == "POST":
        done = f"You have withdrawn from {rater.study.name}. There is nothing more for you to do there."
        try:
            running_raters.withdraw_rater(rater, request.user)
            messages.success(request, done)
        except StudyError as error:  # the study was unblinded in the meantime
            messages.error(request, str(error))
        return redirect("ratings:desk")
    drops = study_protocol.load_protocol(rater.study.protocol).withdrawal == "drop"
    return render_study_page(request, "ratings/withdraw.html", {"drops": drops})


@study_rater_page
@require_safe
def show_own_result(request: RaterRequest) -> HttpResponse:
    """Show the rater's own result once the study is unblinded, if the protocol includes feedback; 404 otherwise."""
    if not own_results.is_available(request.rater):
        raise Http404
    context = {"result": own_results.own_result(request.rater), "may_review": item_review.is_offered(request.rater)}
    return render_study_page(request, "ratings/own_result.html", context)


def _can_work(rater: Rater) -> bool:
    return rater.study.is_open and rater.withdrawn_at is None


def _has_work(rater: Rater) -> bool:
    """Return whether the rater has an item to rate now, or may have one later."""
    return next_item.find_next_assignment(rater) is not None or next_item.find_return_time(rater) is not None


urls: list[URLPattern] = [
    path("rate/", list_my_studies, name="desk"),
    *profile.urls,
    path("rate/study/<uuid:rater>/agree/", ask_consent, name="agree"),
    path("rate/study/<uuid:rater>/guide/", show_guide, name="guide"),
    *practice_pages.urls,
    *own_answers.urls,
    *review_pages.urls,
    path("rate/study/<uuid:rater>/done/", show_last_page, name="done"),
    path("rate/study/<uuid:rater>/finish/", finish_rating, name="finish"),
    path("rate/study/<uuid:rater>/withdraw/", withdraw_from_study, name="withdraw"),
    path("rate/study/<uuid:rater>/result/", show_own_result, name="result"),
]
