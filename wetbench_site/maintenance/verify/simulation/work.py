"""Checks of rows that workers process: their leases, ends and reasons."""

from collections.abc import Callable, Iterator

from django.db.models import Q

from simulation.models import Episode, Job, Twin
from wetbench_site.maintenance.verify.form import Check, Find, Wrong, rows, wrong

Played = type[Episode] | type[Twin] | type[Job]
_HELD_FOR = ("waiting", "blocked", "failed")


def _ends(of: Played) -> Find:
    def ends() -> Iterator[Wrong]:
        has_ended = Q(status__in=of.ENDED)
        is_in_use = Q(ended_at__isnull=True) | Q(lease_until__isnull=False) | Q(awaits_person=True)
        inconsistent = of.objects.order_by("pk").filter(has_ended & is_in_use | ~has_ended & Q(ended_at__isnull=False))
        for code, status, ended, lease in rows(inconsistent.values_list("code", "status", "ended_at", "lease_until")):
            expected = "an end, and no lease" if status in of.ENDED else "no end"
            yield wrong(of, code, f"{status}: {expected}", f"ended {ended}, leased until {lease}")

    return ends


def _reasons(of: Played) -> Find:
    def reasons() -> Iterator[Wrong]:
        lacks_reason = Q(status__in=("blocked", "failed"), reason="")
        has_needless_reason = ~Q(reason="") & ~Q(status__in=_HELD_FOR)
        for code, status, reason in rows(
            of.objects.order_by("pk").filter(lacks_reason | has_needless_reason).values_list("code", "status", "reason")
        ):
            expected = "a reason" if status in _HELD_FOR else "no reason"
            yield wrong(of, code, f"{status}: {expected}", reason or "none")

    return reasons


def _leases(of: Played) -> Find:
    def leases() -> Iterator[Wrong]:
        unowned = of.objects.order_by("pk").filter(Q(lease_owner="") | Q(fence=0), lease_until__isnull=False)
        for code, owner, fence in rows(unowned.values_list("code", "lease_owner", "fence")):
            yield wrong(of, code, "a lease with an owner and a fence", f"owner {owner or 'none'}, fence {fence}")
        not_leased = of.objects.order_by("pk").filter(status="running", lease_owner="")
        for code in rows(not_leased.values_list("code", flat=True)):
            yield wrong(of, code, "running: a worker that has leased it", "no worker")

    return leases


_PROMISES: tuple[tuple[str, str, Callable[[Played], Find]], ...] = (
    ("ends of {}s", "an ended row has a time and no lease; others have no end", _ends),
    ("reasons of {}s", "a failed, blocked or waiting row has a reason, and no other", _reasons),
    ("leases of {}s", "a leased row has an owner and a fence", _leases),
)


def _checks() -> Iterator[Check]:
    kinds: tuple[Played, ...] = (Episode, Twin, Job)
    for name, promise, build_check in _PROMISES:
        for model in kinds:
            yield Check(name.format(model._meta.model_name), promise, model, build_check(model))


CHECKS = tuple(_checks())
