"""Which twins a person looks at: one set of filters for the list of twins, the vetting queue and vetting samples."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db.models import Q, QuerySet

from simulation.models import Experiment, Twin
from simulation.runs import vetting
from wetbench_site.sorted_lists import match_words

FILTERS = ("q", "error", "kind", "maker", "experiment", "cast", "checker", "vetting", "status")
CHECKER_RESULTS = {
    "error": "reports an error",
    "ok": "reports no error",
    "undecidable": "cannot decide",
    "none": "not run",
}
VETTING_STATES = {
    "waiting": "to review",
    "unread": "accepted unread",
    "accepted": "accepted",
    "rejected": "rejected",
    "rules": "accepted by rule",
}
MAKERS = {"models": "language models", "rules": "rules"}


def filter_twins(twins: QuerySet[Twin], filters: Mapping[str, Any]) -> QuerySet[Twin]:
    """Return the twins that match every filter; names outside `FILTERS` and blank values are ignored."""
    conditions = [build(str(filters[name])) for name, build in _CONDITIONS.items() if filters.get(name)]
    return twins.filter(*conditions)


def describe_filters(filters: Mapping[str, Any]) -> str:
    """Return the filters as text for people, such as "subtle errors, kind wrong concentration"; "all twins" without any."""
    slug = filters.get("experiment", "")
    experiment = Experiment.objects.filter(slug=slug).values_list("name", flat=True).first() or slug if slug else ""
    parts = (
        ("{} errors", filters.get("error")),
        ("kind: {}", str(filters.get("kind", "")).replace("_", " ")),
        ("created by {}", MAKERS.get(str(filters.get("maker", "")))),
        ("{}", experiment),
        ("cast {}", filters.get("cast")),
        ("checker {}", CHECKER_RESULTS.get(str(filters.get("checker", "")))),
        ("matching “{}”", filters.get("q")),
    )
    return ", ".join(text.format(value) for text, value in parts if value) or "all twins"


def _match_checker(value: str) -> Q:
    return Q(findings__isnull=True) if value == "none" else Q(findings__verdict=value)


def _match_maker(value: str) -> Q:
    return ~Q(rule="") if value == "rules" else Q(rule="")


def _match_state(value: str) -> Q:
    """Match the states of vetting. Errors planted by rules are accepted without a person, so they are a state of their own."""
    unread = Q(vetted_at__isnull=True)
    by_rule = unread & ~Q(rule="") & ~Q(vetting="rejected") & ~Q(perturbation="none")
    conditions = {
        "waiting": Q(vetting="", status="done") & unread & vetting.needs_person(),
        "unread": Q(vetting="accepted") & unread & vetting.needs_person(),
        "accepted": Q(vetting="accepted") & ~unread,
        "rejected": Q(vetting="rejected"),
        "rules": by_rule & Q(status="done"),
    }
    return conditions.get(value, Q())


_CONDITIONS: Mapping[str, Callable[[str], Q]] = {
    "q": lambda text: match_words(
        text, "transition__action_name", "transition__episode__experiment__name", "explanation", "kind"
    ),
    "error": lambda value: Q(perturbation=value),
    "kind": lambda value: Q(kind=value),
    "maker": _match_maker,
    "experiment": lambda value: Q(transition__episode__experiment__slug=value),
    "cast": lambda value: Q(cast=value),
    "checker": _match_checker,
    "vetting": _match_state,
    "status": lambda value: Q(status=value),
}
