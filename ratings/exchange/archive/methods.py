"""The methods section: what was actually done, in sentences and numbers that a paper can use."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ratings.exchange.archive.raters_and_events import IMPORTED_GROUPS, RATER_GROUPS
from ratings.exchange.archive.study_facts import CountRange, StudyFacts, get_blinding_certificate
from ratings.models import TRANSITION, Study
from ratings.protocol.choices import CHOICES
from ratings.stats.estimates import METHODS
from ratings.stats.ratings_table import NO_TRUTH
from ratings.studies.pool import unreviewed_errors

Json = Mapping[str, Any]

_DESIGN_SENTENCES = {
    "crossed": "every rater was assigned every item",
    "balanced": "items were assigned so that every two raters share about the same number",
    "crossover": "every rater was assigned every item, one version of each pair in each of two sessions",
    "pool": "each rater received the next item that still needed a rating, for as long as they wished",
}


def format_methods(
    study: Study, facts: StudyFacts, blinded: bool, document: Json | None = None, shared_items: CountRange | None = None
) -> str:
    """Return the text of methods.txt.

    It contains nothing by source unless the analysis `document` is given. `shared_items` is the range of the
    number of items that two raters share.
    """
    paragraphs = [
        [*_describe_items(study, facts, document), *_describe_raters(facts, document)],
        [*_describe_assignment(study, facts, blinded, shared_items), *_describe_display(facts)],
        [*_describe_exclusions(facts), *_describe_blinding(study, facts, blinded), *_describe_stop_rule(study, facts)],
        _describe_analysis(study, document)
        if document
        else ["This is the blinded archive: it contains nothing by source."],
    ]
    return "\n\n".join(" ".join(sentences) for sentences in paragraphs) + "\n"


def _describe_items(study: Study, facts: StudyFacts, document: Json | None) -> Iterator[str]:
    kind = (
        "the plausibility of single steps in"
        if study.kind == TRANSITION
        else "whether the evidence is sufficient in records of"
    )
    yield f"Raters judged {kind} simulated laboratory work. The question was: {study.question}"
    sources = _join_with_and([str(source) for source in facts.protocol.sources])
    imported = f"{facts.imported_items:,} were imported" if facts.imported_items else ""
    origins = _join_with_and(
        [part for part in (f"the protocol requests {sources}" if sources else "", imported) if part]
    )
    yield f"There were {_count_noun(facts.items, 'item')}{'; ' if origins else ''}{origins}."
    if document and (counts := document["composition"]["references_said"]):
        yield f"Reference labels of the rated items: {counts}."
    elif document and (share := document["composition"]["planted_share"]) is not None:
        yield f"An error was planted in {share:.1%} of the rated items."
    elif facts.protocol.planted_share:
        yield f"According to the protocol, an error is planted in {facts.protocol.planted_share:.1%} of the items from the pool."
    if facts.protocol.planted_share:
        yield f"Review of planted errors: {_lower_first_letter(CHOICES['vetting'][facts.protocol.vetting].name)}."
    if document and unreviewed_errors.has_unreviewed_errors(study):
        yield f"Errors planted by a model were {unreviewed_errors.UNREVIEWED_NOTE}."
    if document and document["reference"]["name"] != NO_TRUTH:
        yield f"All numbers on errors use this reference: {document['reference']['description']}."


def _describe_raters(facts: StudyFacts, document: Json | None) -> Iterator[str]:
    groups = [_describe_rater_group(group, facts.raters[group]) for group in RATER_GROUPS if facts.raters.get(group)]
    yield f"{_count_noun(facts.ratings, 'rating')} that count{'s' * (facts.ratings == 1)} came from {_join_with_and(groups) or 'nobody'}."
    if document and document["composition"]["machines"]:
        model_raters = _join_with_and(list(document["composition"]["machines"]))
        yield f"Model raters rated the same frozen items and are excluded from all numbers on raters: {model_raters}."


def _describe_rater_group(group: str, n: int) -> str:
    match group:
        case "simulated":
            return f"{_count_noun(n, 'simulated rater')} (programs that know which errors were planted and add noise to that knowledge; their results are not evidence about people)"
        case "simulated, imported":
            return f"{_count_noun(n, 'simulated rater')} whose ratings were collected elsewhere and imported (not evidence about people)"
        case "imported":
            return f"{_count_noun(n, 'rater')} whose ratings were collected elsewhere and imported"
        case _:
            return f"{n:,} {'person' if n == 1 else 'people'}"


def _describe_assignment(
    study: Study, facts: StudyFacts, blinded: bool, shared_items: CountRange | None
) -> Iterator[str]:
    protocol, ratings_per_item = facts.protocol, facts.per_item
    yield f"The design was {protocol.design}: {_DESIGN_SENTENCES[protocol.design]}."
    if protocol.is_crossover:
        days = _count_noun(protocol.washout_days, "day")
        yield (
            f"The sessions compared {_lower_first_letter(CHOICES['conditions'][protocol.conditions or ''].name)}: half of the raters read in "
            f"session 1 the version that the others read in session 2, with a washout of at least {days} between the sessions."
        )
    requested = f"{_count_noun(study.ratings_per_item, 'rating')} of each item {'was' if study.ratings_per_item == 1 else 'were'} requested"
    yield f"{requested}; {'every item' if ratings_per_item.least == ratings_per_item.most else 'items'} had {_format_range(ratings_per_item)}."
    if shared_items:
        yield f"Any two raters share {_format_range(shared_items)} items with a verdict from both."
    # Salt and seed together determine orders and arms: with a salt known early, anyone could recompute them.
    salt = "a salt that is withheld until unblinding" if blinded else f"the salt {study.salt}"
    # orders and arms are those of ratings collected here; imported ones have none
    if set(facts.raters) - IMPORTED_GROUPS:
        yield f"Each rater had their own order of items; orders, assignments and arms were drawn from the seed {study.seed} and {salt}."
    if IMPORTED_GROUPS & set(facts.raters):
        yield "It is not known how items of imported ratings were assigned and shown."
    if protocol.practice:
        practice = f"The protocol requires {_count_noun(protocol.practice, 'practice item')} with explanations before the first item"
        yield f"{practice}; {facts.practised:,} raters answered at least one, and these answers are not counted."
    else:
        yield "There was no practice."
    if protocol.repeats:
        yield (
            f"{protocol.repeats:.0%} of a rater's items were shown a second time, at least {protocol.repeat_distance} items later, "
            f"used only for test-retest agreement: {_count_noun(facts.repeats, 'such rating')}."
        )
    else:
        yield "No rater was shown an item twice."


def _describe_display(facts: StudyFacts) -> Iterator[str]:
    unit = {"rater": "each rater", "item": "each item of a rater"}[facts.protocol.display.by]
    for name, shares in facts.arms.items():
        arms = [f"{arm} {share:.1%}" for arm, share in shares.items()]
        assignment = (
            f"{', '.join(arms)} of the assigned items, drawn for {unit}"
            if len(arms) > 1
            else f"{next(iter(shares))} throughout"
        )
        yield f"{name[0].upper()}{name[1:]}: {assignment}."
    if facts.guides > 1:
        yield f"The instructions had {facts.guides} versions; every rating records the version that its rater had read."


def _describe_exclusions(facts: StudyFacts) -> Iterator[str]:
    reasons = [f"{n:,} {reason}" for reason, n in facts.left_out.items() if n]
    yield f"Ratings excluded from every number: {_join_with_and(reasons)}." if reasons else "No rating was excluded."
    if facts.cannot_judge:
        yield f"In {_count_noun(facts.cannot_judge, 'rating')} the rater could not judge; these are excluded from rates and agreement."
    if facts.withdrawn:
        fate = "kept" if facts.protocol.withdrawal == "keep" else "dropped"
        yield f"{_count_noun(facts.withdrawn, 'rater')} withdrew; under the protocol their ratings are {fate}."


def _describe_blinding(study: Study, facts: StudyFacts, blinded: bool) -> Iterator[str]:
    audit = get_blinding_certificate(study, blinded)
    if audit is None:
        yield "There is no blinding certificate: what is sent to raters was never audited."
    else:
        outcome = "passed" if audit["passed"] else "failed"
        yield (
            f"Everything sent to raters was audited for leaks on {_format_day(datetime.fromisoformat(audit['audited_at']))} and {outcome} "
            f"(SHA-256 of the report{' in certificate.json' if blinded else ''} {audit['sha256']})."
        )
    yield (
        f"Interim analyses of rates before unblinding: {facts.looks}, all logged." if facts.looks else "There was no interim analysis."
    )  # fmt: skip
    if study.unblinded_at:
        yield f"The study was unblinded on {_format_day(study.unblinded_at)}, in one logged step."
    else:
        yield "The study has not been unblinded."


def _describe_stop_rule(study: Study, facts: StudyFacts) -> Iterator[str]:
    protocol = facts.protocol
    rule = (
        f"{protocol.stop_ratings:,} ratings" if protocol.stop == "ratings" and protocol.stop_ratings else CHOICES["stop"][protocol.stop].name.lower()
    )  # fmt: skip
    outcome = "was met" if facts.stop.met else "was not met: every number is interim"
    yield f"The stop rule ({rule}) {outcome}. {facts.stop.said}"


def _describe_analysis(study: Study, document: Json) -> list[str]:
    # in the order of METHODS, so that the numbering does not depend on the order of the results
    method_names = sorted({row["method"] for row in document["results"] if row["method"]}, key=list(METHODS).index)
    methods = "; ".join(f"({index}) {METHODS[name].replace(';', ',')}" for index, name in enumerate(method_names, 1))
    versions = ", ".join(f"{name} {number}" for name, number in document["made_with"].items())
    sentences = [
        f"Intervals are 95% intervals; results.json names the method of each: {methods}.",
        f"Resampling methods use {document['resamples']:,} resamples and the seed {document['seed']}.",
        "Numbers pooled over sources are always reported together with the numbers by source.",
        f"Computed by WetBench with {versions}, from the ratings with SHA-256 {document['data']['sha256']}.",
    ]
    return [*sentences, *document["notes"]]


def _format_day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _format_range(counts: CountRange) -> str:
    return (
        f"{counts.least:,}"
        if counts.least == counts.most
        else f"{counts.least:,} to {counts.most:,} (median {counts.middle:g})"
    )


def _lower_first_letter(text: str) -> str:
    return text[:1].lower() + text[1:]


def _count_noun(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _join_with_and(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
