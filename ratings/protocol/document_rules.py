"""Rules of a study document that combine fields. The other rules are declared with the fields, in `study_protocol`."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from math import prod
from typing import TYPE_CHECKING

from wetbench_site.text import format_count

if TYPE_CHECKING:
    from ratings.protocol.study_protocol import SourceRequest, StudyProtocol

_OTHER_DESIGNS = 'choose design "crossed" or "balanced" instead'


def find_problems(protocol: "StudyProtocol", invalid: set[str]) -> list[str]:
    """Return the problems of rules none of whose fields is invalid by itself."""
    # A rule could not handle a value of the wrong type, and its message would repeat the first problem.
    return [text for fields, rule in _RULES.items() if not invalid & set(fields) for text in rule(protocol)]


def _check_slug(protocol: "StudyProtocol") -> Iterator[str]:
    if protocol.name and not protocol.slug:
        yield "slug: the name has no letters to derive it from; enter one in small letters, digits and hyphens"
    if protocol.slug == "new":  # the URL of the page that creates studies
        yield "slug: 'new' is reserved for a page of this site; choose another one"


def _check_sources(protocol: "StudyProtocol") -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for number, source in enumerate(protocol.sources):
        if (source.cast, source.perturbation) in seen:
            yield f"sources[{number}].cast: the same cast and perturbation occur twice"
        seen.add((source.cast, source.perturbation))


def _check_evidence(protocol: "StudyProtocol") -> Iterator[str]:
    """A record of evidence has no twins, so nothing can be planted in it."""
    for number, source in enumerate(protocol.sources if protocol.is_evidence else ()):
        if source.perturbation != "none":
            yield f"sources[{number}].perturbation: is {source.perturbation!r}; allowed: none"


def _check_evidence_display(protocol: "StudyProtocol") -> Iterator[str]:
    if protocol.is_evidence and protocol.display.layouts not in (("plain",), ("aligned",)):
        yield "display.layouts: a record of evidence has one layout; allowed: plain alone or aligned alone"
    if protocol.is_evidence and protocol.display.context != (False,):
        yield "display.context: a record of evidence always shows goal and steps; allowed: false alone"


def _check_rater_count(protocol: "StudyProtocol") -> Iterator[str]:
    needed, raters = protocol.ratings_per_item, protocol.raters
    if raters is not None and raters != needed and protocol.is_crossed:
        yield f"raters: is {raters}; in a crossed design every rater rates every item: {needed}, as ratings_per_item"
    elif raters is not None and raters < needed:
        yield f"raters: is {raters}; {needed} ratings per item need at least {needed} raters"


def _check_items_per_rater(protocol: "StudyProtocol") -> Iterator[str]:
    """The raters together must be able to rate all items. A pool study can be given more raters later."""
    limit, raters = protocol.items_per_rater, protocol.ratings_per_item if protocol.is_crossed else protocol.raters
    if limit is not None and raters is not None and not protocol.is_pool:
        items = sum(source.count for source in protocol.sources)
        needed = -(-items * protocol.ratings_per_item // raters)  # rounded up
        if limit < needed:
            yield f"items_per_rater: is {limit}; {items} items among {raters} raters need at least {needed}"


def _check_stop_rule(protocol: "StudyProtocol") -> Iterator[str]:
    stop, stop_ratings = protocol.stop, protocol.stop_ratings
    if stop == "deadline" and not protocol.deadline:
        yield "deadline: is missing; a study that stops at its deadline needs one"
    if stop == "ratings" and stop_ratings is None:
        yield "stop_ratings: is missing; a study that stops at a number of ratings needs one"
    if stop != "ratings" and stop_ratings is not None:
        yield f'stop_ratings: is {stop_ratings}; it requires stop "ratings"'


def _check_crossover(protocol: "StudyProtocol") -> Iterator[str]:
    """Yield what cannot be combined with a crossover, or the fields that only a crossover may have."""
    if not protocol.is_crossover:
        for name in ("conditions", "washout_days"):
            if name in protocol.model_fields_set:
                yield f'{name}: is {getattr(protocol, name)!r}; it requires design "crossover": leave it out'
        return
    if protocol.is_evidence:
        yield f"design: a record of evidence has no versions to compare: {_OTHER_DESIGNS}"
    if protocol.repeats:
        yield (
            f"repeats: is {protocol.repeats}; in a crossover no item is shown twice: choose 0, or measure test-retest "
            "agreement in a study with another design"
        )
    if protocol.items_per_rater is not None:
        yield (
            f"items_per_rater: is {protocol.items_per_rater}; in a crossover every rater rates every item: leave it out and "
            "request fewer items"
        )
    display, conditions = protocol.display, protocol.conditions
    n_screens = prod(map(len, (display.layouts, display.context, display.marks)))
    if conditions is None:
        yield "conditions: is missing; a crossover compares sources, twins or screens"
    elif conditions == "screens":
        # The two screens are the conditions; with any other number of arms the sessions could not be balanced.
        if n_screens != 2:
            yield f"display: makes {n_screens} screens; a crossover of screens compares exactly 2"
    else:
        if n_screens != 1:
            yield (
                f"display: makes {n_screens} screens; a crossover of {conditions} has one screen for all: keep one of each list, "
                'or compare screens with conditions "screens"'
            )
        yield from (_check_equal_sources if conditions == "sources" else _check_equal_twins)(protocol.sources)


def _check_equal_sources(sources: Collection["SourceRequest"]) -> list[str]:
    """Return a problem unless two casts are requested with the same number of each planted error, and of none."""
    if not sources:  # only imported items, which are checked when the study opens
        return []
    # No set: a set has no fixed order, and the message must be the same each time.
    casts = list(dict.fromkeys(source.cast for source in sources))
    if len(casts) != 2:
        return [f"sources: contains {format_count(len(casts), 'cast')}; a crossover of sources compares exactly 2"]
    # Otherwise the error rate would differ between the conditions and explain the difference by itself.
    first, second = ({s.perturbation: s.count for s in sources if s.cast == cast} for cast in casts)
    if first == second:
        return []
    texts = [", ".join(f"{count} {name}" for name, count in sorted(part.items())) for part in (first, second)]
    return [f"sources: {casts[0]} has {texts[0]} and {casts[1]} has {texts[1]}; both must have the same counts"]


def _check_equal_twins(sources: Collection["SourceRequest"]) -> list[str]:
    """Return a problem unless there is one cast of originals and as many twins as originals."""
    counts = Counter[bool]()
    for source in sources:
        # Each twin needs its own original, because no pair is used in two cases.
        counts[source.perturbation == "none"] += source.count
    n_casts = sum(source.perturbation == "none" for source in sources)
    if not sources or (n_casts == 1 and counts[True] == counts[False]):
        return []
    return [
        f"sources: contains {format_count(n_casts, 'cast')} of originals, {format_count(counts[True], 'original')} and "
        f"{format_count(counts[False], 'twin')}; a crossover of twins has one cast of originals and as many twins as originals"
    ]


_RULES: dict[tuple[str, ...], Callable[["StudyProtocol"], Iterator[str]]] = {
    ("slug",): _check_slug,
    ("sources",): _check_sources,
    ("kind", "sources"): _check_evidence,
    ("raters", "ratings_per_item", "design"): _check_rater_count,
    ("items_per_rater", "raters", "ratings_per_item", "design", "sources"): _check_items_per_rater,
    ("stop", "stop_ratings", "deadline"): _check_stop_rule,
    ("kind", "display"): _check_evidence_display,
    (
        "kind", "design", "conditions", "washout_days", "sources", "items_per_rater", "repeats", "display",
    ): _check_crossover,
}  # fmt: skip
