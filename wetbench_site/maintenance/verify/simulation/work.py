"""What workers play: who may hold it, when it ended, and why."""

from collections.abc import Callable, Iterator

from django.db.models import Q

from simulation.models import Episode, Job, Twin
from wetbench_site.maintenance.verify.form import Check, Find, Wrong, rows, wrong

Played = type[Episode] | type[Twin] | type[Job]
_HELD_FOR = ("waiting", "blocked", "failed")


def _ends(of: Played) -> Find:
    def ends() -> Iterator[Wrong]:
        over = Q(status__in=of.ENDED)
        held = Q(ended_at__isnull=True) | Q(lease_until__isnull=False) | Q(awaits_person=True)
        broken = of.objects.order_by("pk").filter(over & held | ~over & Q(ended_at__isnull=False))
        for code, status, ended, lease in rows(broken.values_list("code", "status", "ended_at", "lease_until")):
            expected = "an end, and no lease" if status in of.ENDED else "no end"
            yield wrong(of, code, f"{status}: {expected}", f"ended {ended}, leased until {lease}")

    return ends


def _reasons(of: Played) -> Find:
    def reasons() -> Iterator[Wrong]:
        silent = Q(status__in=("blocked", "failed"), reason="")
        astray = ~Q(reason="") & ~Q(status__in=_HELD_FOR)
        for code, status, reason in rows(
            of.objects.order_by("pk").filter(silent | astray).values_list("code", "status", "reason")
        ):
            expected = "a reason" if status in _HELD_FOR else "no reason"
            yield wrong(of, code, f"{status}: {expected}", reason or "none")

    return reasons


def _leases(of: Played) -> Find:
    def leases() -> Iterator[Wrong]:
        nobody = of.objects.order_by("pk").filter(Q(lease_owner="") | Q(fence=0), lease_until__isnull=False)
        for code, owner, fence in rows(nobody.values_list("code", "lease_owner", "fence")):
            yield wrong(of, code, "a lease that somebody claimed", f"owner {owner or 'nobody'}, fence {fence}")
        idle = of.objects.order_by("pk").filter(status="running", lease_owner="")
        for code in rows(idle.values_list("code", flat=True)):
            yield wrong(of, code, "running: a worker that took it", "nobody ever did")

    return leases


_PROMISES: tuple[tuple[str, str, Callable[[Played], Find]], ...] = (
    ("ends of {}s", "what has ended says when and is held by nobody; what has not has no end", _ends),
    ("reasons of {}s", "what failed or is held says why, and nothing else does", _reasons),
    ("leases of {}s", "what is held was claimed by somebody, under a fence", _leases),
)


def _checks() -> Iterator[Check]:
    kinds: tuple[Played, ...] = (Episode, Twin, Job)
    for name, promise, about in _PROMISES:
        for of in kinds:
            yield Check(name.format(of._meta.model_name), promise, of, about(of))


CHECKS = tuple(_checks())
