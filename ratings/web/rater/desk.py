"""The rater's way in and out: their studies, consent, the guide, the last page, withdrawal."""

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
from ratings.protocol import StudyProtocol, protocols
from ratings.raters import practice, results
from ratings.rating import serving
from ratings.studies import StudyError, access, designs
from ratings.studies.seats import seating
from ratings.web.account import profile
from ratings.web.guards import RaterRequest, rater_page, seat_page
from ratings.web.rater import own_answers, practising


class DeskLine(NamedTuple):
    """A seat as its holder sees it: `state` is "work", "washout", "all rated", "finished", "paused", "closed", "withdrawn" or
    "result"; `total` is None where the items are shared and nobody knows yet how many will come."""

    seat: Rater
    state: str
    done: int
    total: int | None
    opens: datetime | None = None  # crossover, between the sessions: when the second can be started


@rater_page
@require_safe
def desk(request: RaterRequest) -> HttpResponse:
    """The rater's studies; who has one only, and work in it, goes straight on unless they came for the list: `?pause` or `?all`."""
    lines = [_line(seat) for seat in _counted(access.seats_of(request.user))]
    if len(lines) == 1 and lines[0].state == "work" and not {"pause", "all"} & request.GET.keys():
        return redirect("ratings:next", lines[0].seat.code)
    return render(request, "ratings/desk.html", {"lines": lines, "paused": "pause" in request.GET})


def _counted(seats: QuerySet[Rater]) -> QuerySet[Rater]:
    """The seats with how many of their items are rated, of how many, newest study first."""
    rated = Q(assignments__rating__isnull=False)
    live = Q(assignments__released_at__isnull=True) | rated
    first, second = Q(assignments__session=1), Q(assignments__session=2, assignments__opened_at__isnull=False)
    left = first & Q(assignments__released_at__isnull=True) & ~rated
    answered_at = Greatest(
        "assignments__rating__submitted_at",
        Coalesce("assignments__rating__revised_at", "assignments__rating__submitted_at"),
    )
    counted = seats.annotate(
        done=Count("assignments", filter=rated),
        total=Count("assignments", filter=live),
        left_of_first=Count("assignments", filter=left),
        first_ended=Max(answered_at, filter=first),
        begun_second=Count("assignments", filter=second),
    )
    return counted.order_by(F("study__opened_at").desc(nulls_last=True), "-study_id")


def _line(seat: Any) -> DeskLine:
    protocol = protocols.stored(seat.study.protocol)
    total = protocol.items_per_rater if protocol.design == "pool" else seat.total
    opens = _session_two_opens(seat, protocol)
    state = _state(seat, protocol, total)
    if state == "work" and opens:
        return DeskLine(seat, "washout", seat.done, total, opens)
    return DeskLine(seat, state, seat.done, total)


def _session_two_opens(seat: Any, protocol: StudyProtocol) -> datetime | None:
    """When session 2 opens, if it is to come and the washout is not over."""
    if not protocol.is_crossover or seat.left_of_first or seat.begun_second or seat.first_ended is None:
        return None
    opens: datetime = seat.first_ended + timedelta(days=protocol.washout_days)
    return opens if timezone.now() < opens else None


def _state(seat: Any, protocol: StudyProtocol, total: int | None) -> str:
    if seat.withdrawn_at:
        return "withdrawn"
    if seat.study.is_unblinded and protocol.feedback:
        return "result"
    if seat.study.status in ("closed", "unblinded"):
        return "closed"
    if seat.finished_at:
        return "finished"
    if not seat.study.is_open:
        return "paused"
    return "all rated" if total is not None and seat.done >= total > 0 else "work"


@seat_page
@require_http_methods(["GET", "HEAD", "POST"])
def agree(request: RaterRequest) -> HttpResponse:
    """Consent, asked of whoever has not given it with their invitation; nothing is shown or stored before."""
    seat = request.rater
    if seat.consented_at or not _at_work(seat):
        return redirect("ratings:next", seat.code)
    if request.method == "POST" and request.POST.get("consent") == "on":
        Rater.objects.filter(pk=seat.pk, consented_at__isnull=True).update(consented_at=timezone.now())
        return _onward("ratings:next", seat)
    missing = request.method == "POST"
    return _page(request, "ratings/agree.html", {"missing": missing}, 422 if missing else 200)


@seat_page
@require_http_methods(["GET", "HEAD", "POST"])
def guide(request: RaterRequest) -> HttpResponse:
    """The instructions; going on from here says that this version of them was read."""
    seat = request.rater
    if not _at_work(seat) or not seat.consented_at:
        return redirect("ratings:next" if seat.consented_at or not _at_work(seat) else "ratings:agree", seat.code)
    if request.method == "POST":
        return _read(seat)
    context = {
        "asks_practice": practice.wanted(seat) if practice.pending(seat) else 0,
        "practised": practice.result(seat),
        "changed": 0 < seat.guide_seen < seat.study.guide_version,
        "screen": _screen(seat),
    }
    return _page(request, "ratings/guide.html", context)


def _screen(seat: Rater) -> dict[str, bool]:
    """What the guide has to tell of this seat's arm; of all arms, where they change from item to item."""
    protocol = protocols.stored(seat.study.protocol)
    arms = [serving.arm(seat)] if protocol.display.by == "rater" else designs.arms_of(protocol)
    return {
        "always": any(arm.marks == "always" for arm in arms),
        "if_not": any(arm.marks == "if_not_plausible" for arm in arms),
        "twice": seat.study.kind == TRANSITION and any(arm.layout == "confirm" for arm in arms),
        "mixed": len(arms) > 1,
    }


def _read(seat: Rater) -> HttpResponse:
    """On to practice, or to the items where none is asked for."""
    Rater.objects.filter(pk=seat.pk).update(guide_seen=seat.study.guide_version)
    if practice.pending(seat):
        return _onward("ratings:practice", seat)
    practice.begin(seat)
    return _onward("ratings:next", seat)


@seat_page
@require_safe
def done(request: RaterRequest) -> HttpResponse:
    """The last page: thanks, and every own answer, to be corrected until Finish is pressed or the study closes."""
    seat = request.rater
    if seat.withdrawn_at or (_at_work(seat) and not seat.finished_at and _has_work(seat)):
        return redirect("ratings:next", seat.code)
    may_change = _at_work(seat) and seat.finished_at is None
    context = {"answers": own_answers.listed(seat), "may_change": may_change, "shows_result": results.shown(seat)}
    return _page(request, "ratings/done.html", context)


@seat_page
@require_POST
def finish(request: RaterRequest) -> HttpResponse:
    """Nothing changes after this. Refused while items are left, or while the study takes no answers."""
    seat = request.rater
    if not _at_work(seat) or _has_work(seat):
        return _onward("ratings:next", seat)
    with transaction.atomic():
        Study.objects.select_for_update().get(pk=seat.study_id)  # an answer under way is waited for: none comes after
        Rater.objects.filter(pk=seat.pk, finished_at__isnull=True).update(finished_at=timezone.now())
    return _onward("ratings:done", seat)


@seat_page
@require_http_methods(["GET", "HEAD", "POST"])
def withdraw(request: RaterRequest) -> HttpResponse:
    """Asked first, with what becomes of the answers given so far; then the seat is given up for good."""
    seat = request.rater
    if seat.withdrawn_at or seat.study.status not in ("open", "paused"):
        return redirect("ratings:desk")
    if request.method == "POST":
        try:
            seating.withdraw(seat, request.user)
        except StudyError as error:  # unblinded a moment ago
            messages.error(request, str(error))
            return redirect("ratings:desk")
        messages.success(request, f"You have withdrawn from {seat.study.name}. Nothing more is asked of you there.")
        return redirect("ratings:desk")
    drops = protocols.stored(seat.study.protocol).withdrawal == "drop"
    return _page(request, "ratings/withdraw.html", {"drops": drops})


@seat_page
@require_safe
def result(request: RaterRequest) -> HttpResponse:
    """How the rater did, once the study is unblinded and if it tells; their own numbers and nobody else's."""
    if not results.shown(request.rater):
        raise Http404
    return _page(request, "ratings/own_result.html", {"result": results.own_result(request.rater)})


def _at_work(seat: Rater) -> bool:
    return seat.study.is_open and seat.withdrawn_at is None


def _has_work(seat: Rater) -> bool:
    """An item is left for this seat, or may come back to it."""
    return serving.next_assignment(seat) is not None or serving.waiting(seat) is not None


def _onward(name: str, seat: Rater) -> HttpResponse:
    """To another page after a POST."""
    response = redirect(name, seat.code)
    response.status_code = 303
    return response


def _page(request: RaterRequest, page: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    seat = request.rater
    shared = {"study": seat.study, "seat": seat, "progress": serving.progress(seat)}
    return render(request, page, {**shared, **context}, status=status)


urls: list[URLPattern] = [
    path("rate/", desk, name="desk"),
    *profile.urls,
    *own_answers.urls,
    path("rate/study/<uuid:seat>/agree/", agree, name="agree"),
    path("rate/study/<uuid:seat>/guide/", guide, name="guide"),
    *practising.urls,
    path("rate/study/<uuid:seat>/done/", done, name="done"),
    path("rate/study/<uuid:seat>/finish/", finish, name="finish"),
    path("rate/study/<uuid:seat>/withdraw/", withdraw, name="withdraw"),
    path("rate/study/<uuid:seat>/result/", result, name="result"),
]
