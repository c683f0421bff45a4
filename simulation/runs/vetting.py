"""Decide whether a twin may enter studies: is it wrong, is the error the only change, does its form give it away?

Errors planted by rules are accepted automatically. Twins from models need a person's decision.
"""

import re
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from simulation.lab.errors import LabError
from simulation.models import SampledTwin, Twin, TwinDecision

MAX_KIND_LENGTH = 60  # characters, as in the column Twin.kind


class VettingError(LabError):
    """The twin is not finished, or the answers contradict each other."""


class VettingAnswers(NamedTuple):
    """A person's answers about a twin. If a rule planted the error, the rule names the kind of error."""

    decision: str  # "accepted" or "rejected"; "relabelled" follows from `perturbation`
    perturbation: str = ""  # the error type that the twin counts as
    wrong: bool | None = None
    only_change: bool | None = None
    tell: bool | None = None
    field: str = ""  # where the error is; "": at no single location
    note: str = ""
    kind: str = ""  # the kind of error that a model has planted, in the person's words; "": not named


def normalise_kind(text: str) -> str:
    """Return the name of a kind of error as stored: lower-case words joined by underscores, like the names of rules."""
    return "_".join(re.findall(r"[^\W_]+", text.lower()))


def list_known_kinds() -> list[str]:
    return list(Twin.objects.exclude(kind="").order_by("kind").values_list("kind", flat=True).distinct())


def get_error_type(twin: Twin) -> str:
    """Return the twin's error type in studies: the person's decision, else the planted type."""
    return twin.vetted_as or twin.perturbation


def filter_accepted(twins: QuerySet[Twin], by_person: bool) -> QuerySet[Twin]:
    """Return twins that may enter a study; with `by_person`, only those that a person has accepted."""
    if by_person:
        return twins.filter(vetting="accepted", vetted_at__isnull=False)
    return twins.filter(Q(vetting="accepted") | Q(vetting="") & ~needs_person())


def filter_accepted_unread(twins: QuerySet[Twin]) -> QuerySet[Twin]:
    """Return twins from models that may enter studies although no person has read them (`accept_unread`)."""
    return twins.filter(needs_person(), vetting="accepted", vetted_at__isnull=True)


def filter_undecided(twins: QuerySet[Twin], by_person: bool = False) -> QuerySet[Twin]:
    """Return twins that wait for a person: errors planted by models, or with `by_person` every twin that no person has read."""
    unread = twins.filter(status="done", vetted_at__isnull=True).exclude(vetting="rejected")
    return unread if by_person else unread.filter(needs_person(), vetting="")


def needs_person() -> Q:
    """Match errors planted by models: an error without a rule. Another model's own answer has no planted error."""
    return Q(rule="") & ~Q(perturbation="none")


def find_problems(twin: Twin, answers: VettingAnswers) -> list[str]:
    """Return everything that prevents these answers from being stored, as messages for people."""
    if twin.status != "done":
        return ["Only a finished twin can be vetted"]
    locations = [str(difference["path"]) for difference in twin.diff]
    planted = twin.perturbation != "none"
    messages = []
    if answers.decision not in ("accepted", "rejected"):
        messages.append("Choose whether it may enter studies")
    if answers.field and answers.field not in locations:
        differing = ", ".join(locations) or "no location"
        messages.append(f"The error cannot be at {answers.field!r}; this twin differs at: {differing}")
    if (length := len(normalise_kind(answers.kind))) > MAX_KIND_LENGTH:
        messages.append(f"The kind of error has {length} characters; the maximum is {MAX_KIND_LENGTH}")
    if planted and answers.perturbation not in ("obvious", "subtle"):
        messages.append("Choose whether the error counts as obvious or subtle")
    if answers.decision == "accepted" and planted and answers.wrong is not True:
        messages.append("A twin that is not wrong cannot be used as an error: reject it")
    if answers.decision == "accepted" and answers.tell:
        messages.append("A twin whose form gives it away cannot enter a study: reject it")
    return messages


def find_error_location(twin: Twin) -> str:
    """Return the location that the rule or model named, else the only location that differs, else ""."""
    paths = [str(difference["path"]) for difference in twin.diff]
    if twin.field in paths:
        return twin.field
    return paths[0] if len(paths) == 1 else ""


def is_named_by_person(twin: Twin) -> bool:
    """Return whether a person names the kind of error: a model planted the error, so no rule names it."""
    return twin.perturbation != "none" and not twin.rule


@transaction.atomic
def record_decision(twin: Twin, answers: VettingAnswers, user: User) -> TwinDecision:
    """Store a person's decision beside all earlier ones. Raise LabError if the answers are not valid."""
    # Lock and reload: two people may decide on the same twin at once, and the later decision must see the earlier one.
    twin = Twin.objects.select_for_update(of=("self",)).get(pk=twin.pk)
    if wrong := find_problems(twin, answers):
        raise VettingError("; ".join(wrong))
    label = answers.perturbation if twin.perturbation != "none" else "none"
    relabelled = answers.decision == "accepted" and label != twin.perturbation
    now = timezone.now()
    twin.vetting, twin.vetted_by, twin.vetted_at = answers.decision, user, now
    twin.vetted_as, twin.field = (label if relabelled else ""), answers.field
    if is_named_by_person(twin):
        twin.kind = normalise_kind(answers.kind)
    twin.save(update_fields=["vetting", "vetted_by", "vetted_at", "vetted_as", "field", "kind"])
    answered: dict[str, Any] = {name: getattr(answers, name) for name in ("wrong", "only_change", "tell", "field")}
    answered |= {"decision": "relabelled" if relabelled else answers.decision, "perturbation": label}
    answered |= {"kind": twin.kind, "note": answers.note.strip()}
    decision = TwinDecision.objects.create(twin=twin, by=user, at=now, **answered)
    SampledTwin.objects.filter(twin=twin, first__isnull=True).update(first=decision)
    return decision


@transaction.atomic
def reopen(twin: Twin, user: User) -> bool:
    """Undo the decision on a twin, which waits for a person again. Return False if there is none to undo."""
    twin = Twin.objects.select_for_update(of=("self",)).get(pk=twin.pk)
    last = twin.decisions.order_by("-pk").first()
    # A rule's acceptance is no decision of a person, and cannot be undone.
    if last is None or last.decision == "reopened" or (last.by_id is None and last.decision == "accepted"):
        return False
    twin.vetting, twin.vetted_by, twin.vetted_at, twin.vetted_as = "", None, None, ""
    twin.save(update_fields=["vetting", "vetted_by", "vetted_at", "vetted_as"])
    kept = {"perturbation": twin.perturbation, "field": twin.field, "kind": twin.kind}
    TwinDecision.objects.create(twin=twin, by=user, decision="reopened", **kept)
    SampledTwin.objects.filter(twin=twin, sample__accepted_at__isnull=True).update(first=None)
    return True


@transaction.atomic
def accept_unread(twins: QuerySet[Twin], note: str, by: User | None = None) -> int:
    """Accept the twins from models that wait for a person, and record them as unread. Return how many.

    They still wait for a person, and are excluded from studies that require a person's decision.
    """
    # Only these columns: the outcomes of many twins would not fit into memory.
    columns = ("pk", "perturbation", "field", "kind", "diff")
    waiting = filter_undecided(twins).select_for_update(of=("self",)).only(*columns).order_by("pk")
    accepted, decisions = list(waiting), []
    for twin in accepted:
        twin.vetting, twin.field = "accepted", find_error_location(twin)
        error = {"perturbation": twin.perturbation, "field": twin.field, "kind": twin.kind}
        decisions.append(TwinDecision(twin=twin, decision="unread", wrong=True, note=note, by=by, **error))
    Twin.objects.bulk_update(accepted, ["vetting", "field"], batch_size=200)
    TwinDecision.objects.bulk_create(decisions, batch_size=500)
    return len(accepted)


def accept_by_rule(twins: QuerySet[Twin]) -> int:
    """Record that errors planted by rules are accepted, once per twin, and return how many were new. Call it in a transaction."""
    rule_twins = twins.filter(status="done", vetting="").exclude(rule="").exclude(perturbation="none")
    decisions = TwinDecision.objects.filter(twin=OuterRef("pk"))
    new_twins = list(rule_twins.exclude(Exists(decisions)).values_list("pk", "perturbation", "field"))
    decision: dict[str, Any] = {"decision": "accepted", "wrong": True}
    decision["note"] = "planted by a rule that says what it broke"
    TwinDecision.objects.bulk_create(
        TwinDecision(twin_id=pk, perturbation=label, field=field, **decision) for pk, label, field in new_twins
    )
    Twin.objects.filter(pk__in=[pk for pk, _, _ in new_twins], vetting="").update(vetting="accepted")
    return len(new_twins)


def get_vetting_queue(include_rules: bool = False) -> QuerySet[Twin]:
    """Return the twins that no person has read, oldest first; with `include_rules`, also those accepted by rule."""
    waiting = filter_undecided(Twin.objects.all(), by_person=True).order_by("pk")
    return waiting if include_rules else waiting.filter(needs_person())


def list_decisions(twin: Twin) -> QuerySet[TwinDecision]:
    """Return all decisions on the twin, oldest first."""
    return twin.decisions.select_related("by").order_by("pk")
