"""Whether a twin may enter studies: is it wrong at all, is that the only change, does its form give it away?

Rules vouch for what they planted themselves. What a model made is no knowledge until a person has looked at it.
"""

import re
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from simulation.lab.errors import LabError
from simulation.models import Twin, TwinDecision

MOST_KIND = 60


class NoSuchPlaceError(LabError):
    """The twin differs at no such place; the message names those at which it does."""


class NotToBeVettedError(LabError):
    """There is no finished twin to look at, or the answers contradict each other; the message says which."""


class Answers(NamedTuple):
    """What a person found. `perturbation` is the error type it counts as, `field` where it stands ("": not one place), `kind`
    what kind of error a model has planted, in the person's words ("": not named). Rules name their own kinds."""

    decision: str  # "accepted" or "rejected"; "relabelled" follows from `perturbation`
    perturbation: str = ""
    wrong: bool | None = None
    only_change: bool | None = None
    tell: bool | None = None
    field: str = ""
    note: str = ""
    kind: str = ""


def clean_kind(text: str) -> str:
    """Return the name of a kind of error as it is stored: small words joined by underscores, as rules name theirs."""
    return "_".join(re.findall(r"[^\W_]+", text.lower()))


def known_kinds() -> list[str]:
    """Return the kinds of error that twins have so far, by name."""
    kinds = Twin.objects.exclude(kind="").order_by("kind")
    return list(kinds.values_list("kind", flat=True).distinct())


def counts_as(twin: Twin) -> str:
    """The error type it has in studies: what a person made of it, else what was planted."""
    return twin.vetted_as or twin.perturbation


def accepted(twins: QuerySet[Twin], by_person: bool) -> QuerySet[Twin]:
    """Those that may enter a study; with `by_person`, only what a person has accepted."""
    if by_person:
        return twins.filter(vetting="accepted", vetted_at__isnull=False)
    return twins.filter(Q(vetting="accepted") | Q(vetting="") & ~_needs_a_person())


def accepted_unread(twins: QuerySet[Twin]) -> QuerySet[Twin]:
    """Return those by models that may enter studies although nobody has looked at them (`accept_unread`)."""
    return twins.filter(_needs_a_person(), vetting="accepted", vetted_at__isnull=True)


def undecided(twins: QuerySet[Twin], by_person: bool = False) -> QuerySet[Twin]:
    """Those that wait for a person: what models planted, and with `by_person` everything nobody has looked at."""
    open_ones = twins.filter(status="done", vetted_at__isnull=True).exclude(vetting="rejected")
    return open_ones if by_person else open_ones.filter(_needs_a_person(), vetting="")


def _needs_a_person() -> Q:
    """A planted error without a rule is a model's; another model's plain answer holds no planted error."""
    return Q(rule="") & ~Q(perturbation="none")


def problems(twin: Twin, answers: Answers) -> list[str]:
    """Everything that keeps these answers from being stored."""
    if twin.status != "done":
        return ["Only a finished twin can be vetted"]
    places = [str(difference["path"]) for difference in twin.diff]
    planted = twin.perturbation != "none"
    found = []
    if answers.decision not in ("accepted", "rejected"):
        found.append("Say whether it may enter studies")
    if answers.field and answers.field not in places:
        told = ", ".join(places) or "no place"
        found.append(f"The error stands at {answers.field!r}; this twin differs at: {told}")
    if len(clean_kind(answers.kind)) > MOST_KIND:
        found.append(f"The kind of error has {len(clean_kind(answers.kind))} characters; it may have {MOST_KIND}")
    if planted and answers.perturbation not in ("obvious", "subtle"):
        found.append("An error counts as obvious or as subtle")
    if answers.decision == "accepted" and planted and answers.wrong is not True:
        found.append("A twin that is not wrong cannot stand for an error: reject it")
    if answers.decision == "accepted" and answers.tell:
        found.append("A twin whose form gives it away cannot enter a study: reject it")
    return found


def find_place(twin: Twin) -> str:
    """Return the one place where the error of a twin stands before a person has looked: what its maker states, or else the
    only place that differs; "" where that is not known."""
    paths = [str(difference["path"]) for difference in twin.diff]
    if twin.field in paths:
        return twin.field
    return paths[0] if len(paths) == 1 else ""


def is_named_by_person(twin: Twin) -> bool:
    """Return whether a person names the kind of error: a model planted it, and no rule says what it broke."""
    return twin.perturbation != "none" and not twin.rule


@transaction.atomic
def decide(twin: Twin, answers: Answers, by: User) -> TwinDecision:
    """Store what a person found, beside every earlier decision. LabError says what is wrong with the answers."""
    twin = Twin.objects.select_for_update(of=("self",)).get(pk=twin.pk)
    if wrong := problems(twin, answers):
        kind = NoSuchPlaceError if len(wrong) == 1 and wrong[0].startswith("The error stands") else NotToBeVettedError
        raise kind("; ".join(wrong))
    label = answers.perturbation if twin.perturbation != "none" else "none"
    relabelled = answers.decision == "accepted" and label != twin.perturbation
    now = timezone.now()
    twin.vetting, twin.vetted_by, twin.vetted_at = answers.decision, by, now
    twin.vetted_as, twin.field = (label if relabelled else ""), answers.field
    if is_named_by_person(twin):
        twin.kind = clean_kind(answers.kind)
    twin.save(update_fields=["vetting", "vetted_by", "vetted_at", "vetted_as", "field", "kind"])
    return TwinDecision.objects.create(
        twin=twin,
        decision="relabelled" if relabelled else answers.decision,
        wrong=answers.wrong,
        only_change=answers.only_change,
        tell=answers.tell,
        perturbation=label,
        field=answers.field,
        kind=twin.kind,
        note=answers.note.strip(),
        by=by,
        at=now,
    )


@transaction.atomic
def accept_unread(twins: QuerySet[Twin], note: str) -> int:
    """Let those by models that wait into studies, on record as read by nobody; return how many.

    They still wait for a person, and enter no study that wants one. Where the error stands is known as far as `find_place` knows it.
    """
    waiting = list(undecided(twins).select_for_update(of=("self",)))
    for twin in waiting:
        twin.vetting = "accepted"
        twin.field = find_place(twin)
    Twin.objects.bulk_update(waiting, ["vetting", "field"], batch_size=200)
    TwinDecision.objects.bulk_create(
        TwinDecision(
            twin=twin, decision="unread", wrong=True, perturbation=twin.perturbation, field=twin.field, kind=twin.kind, note=note
        )
        for twin in waiting
    )  # fmt: skip
    return len(waiting)


def accept_by_rule(twins: QuerySet[Twin]) -> int:
    """Log that rules vouch for what they planted, once per twin; how many were new. Part of a transaction."""
    mine = twins.filter(status="done", vetting="").exclude(rule="").exclude(perturbation="none")
    told = TwinDecision.objects.filter(twin=OuterRef("pk"))
    fresh = list(mine.exclude(Exists(told)).values_list("pk", "perturbation", "field"))
    TwinDecision.objects.bulk_create(_rules_decision(pk, label, field) for pk, label, field in fresh)
    Twin.objects.filter(pk__in=[pk for pk, _, _ in fresh], vetting="").update(vetting="accepted")
    return len(fresh)


def _rules_decision(twin: int, perturbation: str, field: str) -> TwinDecision:
    return TwinDecision(
        twin_id=twin,
        decision="accepted",
        wrong=True,
        perturbation=perturbation,
        field=field,
        note="planted by a rule that says what it broke",
    )


def queue(everything: bool = False) -> QuerySet[Twin]:
    """Twins that wait for a person, oldest first, those accepted unread among them; with `everything`, also those that only
    rules vouch for."""
    waiting = undecided(Twin.objects.all(), by_person=True).order_by("pk")
    return waiting if everything else waiting.filter(_needs_a_person())


def history(twin: Twin) -> QuerySet[TwinDecision]:
    """Every decision about it, oldest first."""
    return twin.decisions.select_related("by").order_by("pk")


def places(twin: Twin) -> list[Any]:
    """The places where it is not the original, as its diff has them."""
    return list(twin.diff)
