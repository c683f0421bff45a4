"""Checks of twins: how they differ from their transition, and who accepted them."""

from collections.abc import Iterator

from django.db.models import OuterRef, Q, Subquery

from simulation.lab.bench import step_from_json
from simulation.lab.differences import find_differences
from simulation.lab.outcomes import Outcome
from simulation.models import Twin, TwinDecision
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows

_VETTING_AFTER = {
    "accepted": "accepted",
    "relabelled": "accepted",
    "rejected": "rejected",
    "unread": "accepted",
    None: "",
}


@build_check("differences of twins", "a twin differs from its transition in exactly the stored properties", Twin)
def check_twin_differences() -> Iterator[Violation]:
    finished = Twin.objects.order_by("pk").filter(status="done").exclude(diff=[])
    for pk, outcome, diff, step in iter_rows(finished.values_list("pk", "outcome", "diff", "transition__step")):
        original = step_from_json(step).outcome
        computed = [difference._asdict() for difference in find_differences(original, Outcome.from_json(outcome))]
        if [entry["path"] for entry in computed] != [entry.get("path") for entry in diff]:
            expected = ", ".join(str(entry["path"]) for entry in computed)
            yield build_violation(Twin, pk, expected, ", ".join(str(entry.get("path")) for entry in diff))


@build_check("decisions on twins", "the vetting state of a twin is that of the last decision about it", Twin)
def check_twin_decisions() -> Iterator[Violation]:
    last = TwinDecision.objects.filter(twin=OuterRef("pk")).order_by("-pk").values("decision")[:1]
    twins = Twin.objects.order_by("pk").annotate(last=Subquery(last)).exclude(vetting="", last__isnull=True)
    for code, vetting, decision in iter_rows(twins.values_list("code", "vetting", "last")):
        if vetting != _VETTING_AFTER[decision]:
            yield build_violation(
                Twin, code, f"{_VETTING_AFTER[decision] or 'not vetted'}, the last decision", vetting or "not vetted"
            )


@build_check(
    "dates of decisions",
    "a vetted twin has the time of the decision, and only such a twin has another error type",
    Twin,
)
def check_decision_times() -> Iterator[Violation]:
    inconsistent = Q(vetted_at__isnull=False, vetting="") | Q(vetted_at__isnull=True) & ~Q(vetted_as="")
    for code, decided_at, label in iter_rows(
        Twin.objects.order_by("pk").filter(inconsistent).values_list("code", "vetted_at", "vetted_as")
    ):
        yield build_violation(
            Twin, code, "a decision with its time", f"at {decided_at}, counted as {label or 'planted'}"
        )


CHECKS = (check_twin_differences, check_twin_decisions, check_decision_times)
