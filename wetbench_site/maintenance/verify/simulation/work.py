"""Checks of rows that workers process: their leases, ends and reasons."""

from collections.abc import Callable, Iterator

from django.db.models import Q

from simulation.models import Episode, Job, Twin
from wetbench_site.maintenance.verify.checks import Check, FindViolations, Violation, build_violation, iter_rows

LeasedModel = type[Episode] | type[Twin] | type[Job]
_STATUSES_WITH_REASON = ("waiting", "blocked", "failed")


def _build_end_check(model: LeasedModel) -> FindViolations:
    def find_wrong_ends() -> Iterator[Violation]:
        has_ended = Q(status__in=model.ENDED)
        is_in_use = Q(ended_at__isnull=True) | Q(lease_until__isnull=False) | Q(awaits_person=True)
        inconsistent = model.objects.order_by("pk").filter(
            has_ended & is_in_use | ~has_ended & Q(ended_at__isnull=False)
        )
        for code, status, ended, lease in iter_rows(
            inconsistent.values_list("code", "status", "ended_at", "lease_until")
        ):
            expected = "an end, and no lease" if status in model.ENDED else "no end"
            yield build_violation(model, code, f"{status}: {expected}", f"ended {ended}, leased until {lease}")

    return find_wrong_ends


def _build_reason_check(model: LeasedModel) -> FindViolations:
    def find_wrong_reasons() -> Iterator[Violation]:
        lacks_reason = Q(status__in=("blocked", "failed"), reason="")
        has_needless_reason = ~Q(reason="") & ~Q(status__in=_STATUSES_WITH_REASON)
        for code, status, reason in iter_rows(
            model.objects.order_by("pk")
            .filter(lacks_reason | has_needless_reason)
            .values_list("code", "status", "reason")
        ):
            expected = "a reason" if status in _STATUSES_WITH_REASON else "no reason"
            yield build_violation(model, code, f"{status}: {expected}", reason or "none")

    return find_wrong_reasons


def _build_lease_check(model: LeasedModel) -> FindViolations:
    def find_wrong_leases() -> Iterator[Violation]:
        unowned = model.objects.order_by("pk").filter(Q(lease_owner="") | Q(fence=0), lease_until__isnull=False)
        for code, owner, fence in iter_rows(unowned.values_list("code", "lease_owner", "fence")):
            yield build_violation(
                model, code, "a lease with an owner and a fence", f"owner {owner or 'none'}, fence {fence}"
            )
        not_leased = model.objects.order_by("pk").filter(status="running", lease_owner="")
        for code in iter_rows(not_leased.values_list("code", flat=True)):
            yield build_violation(model, code, "running: a worker that has leased it", "no worker")

    return find_wrong_leases


_PROMISES_PER_MODEL: tuple[tuple[str, str, Callable[[LeasedModel], FindViolations]], ...] = (
    ("ends of {}s", "an ended row has a time and no lease; others have no end", _build_end_check),
    ("reasons of {}s", "a failed, blocked or waiting row has a reason, and no other", _build_reason_check),
    ("leases of {}s", "a leased row has an owner and a fence", _build_lease_check),
)


def _build_checks() -> Iterator[Check]:
    kinds: tuple[LeasedModel, ...] = (Episode, Twin, Job)
    for name, promise, build_check in _PROMISES_PER_MODEL:
        for model in kinds:
            yield Check(name.format(model._meta.model_name), promise, model, build_check(model))


CHECKS = tuple(_build_checks())
