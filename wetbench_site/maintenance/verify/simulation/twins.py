"""Checks of twins: how they differ from their transition, and who accepted them."""

from collections.abc import Iterator

from django.db.models import OuterRef, Q, Subquery

from simulation.lab.bench import step_from_json
from simulation.lab.differences import differences
from simulation.lab.outcomes import Outcome
from simulation.models import Twin, TwinDecision
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong

_VETTED = {"accepted": "accepted", "relabelled": "accepted", "rejected": "rejected", "unread": "accepted", None: ""}


@check("differences of twins", "a twin differs from its transition in exactly the stored properties", Twin)
def differences_of_twins() -> Iterator[Wrong]:
    finished = Twin.objects.order_by("pk").filter(status="done").exclude(diff=[])
    for pk, outcome, diff, step in rows(finished.values_list("pk", "outcome", "diff", "transition__step")):
        original = step_from_json(step).outcome
        computed = [difference._asdict() for difference in differences(original, Outcome.from_json(outcome))]
        if [entry["path"] for entry in computed] != [entry.get("path") for entry in diff]:
            expected = ", ".join(str(entry["path"]) for entry in computed)
            yield wrong(Twin, pk, expected, ", ".join(str(entry.get("path")) for entry in diff))


@check("decisions on twins", "the vetting state of a twin is that of the last decision about it", Twin)
def decisions_on_twins() -> Iterator[Wrong]:
    last = TwinDecision.objects.filter(twin=OuterRef("pk")).order_by("-pk").values("decision")[:1]
    twins = Twin.objects.order_by("pk").annotate(last=Subquery(last)).exclude(vetting="", last__isnull=True)
    for code, vetting, decision in rows(twins.values_list("code", "vetting", "last")):
        if vetting != _VETTED[decision]:
            yield wrong(Twin, code, f"{_VETTED[decision] or 'not vetted'}, the last decision", vetting or "not vetted")


@check(
    "dates of decisions",
    "a vetted twin has the time of the decision, and only such a twin has another error type",
    Twin,
)
def dates_of_decisions() -> Iterator[Wrong]:
    inconsistent = Q(vetted_at__isnull=False, vetting="") | Q(vetted_at__isnull=True) & ~Q(vetted_as="")
    for code, decided_at, label in rows(
        Twin.objects.order_by("pk").filter(inconsistent).values_list("code", "vetted_at", "vetted_as")
    ):
        yield wrong(Twin, code, "a decision with its time", f"at {decided_at}, counted as {label or 'planted'}")


CHECKS = (differences_of_twins, decisions_on_twins, dates_of_decisions)
