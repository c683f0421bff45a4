"""Twins: what they differ in, and who let them into studies."""

from collections.abc import Iterator

from django.db.models import OuterRef, Q, Subquery

from simulation.lab.bench import step_from_json
from simulation.lab.differences import differences
from simulation.lab.outcomes import Outcome
from simulation.models import Twin, TwinDecision
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_VETTED = {"accepted": "accepted", "relabelled": "accepted", "rejected": "rejected", "unread": "accepted", None: ""}


@check("differences of twins", "a twin differs from its transition in the places that are written beside it", Twin)
def differences_of_twins() -> Iterator[Wrong]:
    done = Twin.objects.order_by("pk").filter(status="done").exclude(diff=[])
    for pk, outcome, diff, step in rows(done.values_list("pk", "outcome", "diff", "transition__step")):
        original = step_from_json(step).outcome
        found = [one._asdict() for one in differences(original, Outcome.from_json(outcome))]
        if [one["path"] for one in found] != [one.get("path") for one in diff]:
            expected = ", ".join(str(one["path"]) for one in found)
            yield wrong(Twin, pk, expected, ", ".join(str(one.get("path")) for one in diff))


@check("decisions on twins", "a twin stands as the last decision about it has it", Twin)
def decisions_on_twins() -> Iterator[Wrong]:
    last = TwinDecision.objects.filter(twin=OuterRef("pk")).order_by("-pk").values("decision")[:1]
    told = Twin.objects.order_by("pk").annotate(last=Subquery(last)).exclude(vetting="", last__isnull=True)
    for code, vetting, decision in rows(told.values_list("code", "vetting", "last")):
        if vetting != _VETTED[decision]:
            yield wrong(Twin, code, f"{_VETTED[decision] or 'not vetted'}, as decided last", vetting or "not vetted")


@check("dates of decisions", "what only people decide says when they did, and what they made of it", Twin)
def dates_of_decisions() -> Iterator[Wrong]:
    astray = Q(vetted_at__isnull=False, vetting="") | Q(vetted_at__isnull=True) & ~Q(vetted_as="")
    for code, at, label in rows(
        Twin.objects.order_by("pk").filter(astray).values_list("code", "vetted_at", "vetted_as")
    ):
        yield wrong(Twin, code, "a decision with its time", f"at {at}, counted as {label or 'planted'}")


CHECKS = (differences_of_twins, decisions_on_twins, dates_of_decisions)
