"""The methods section: what was actually done, in sentences and numbers that a paper can use."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ratings.exchange.archive.design import Design, Spread, certificate
from ratings.exchange.archive.people import ELSEWHERE, WHO
from ratings.models import TRANSITION, Study
from ratings.protocol.choices import WORDS
from ratings.stats.estimates import METHODS
from ratings.stats.table import NO_TRUTH
from ratings.studies.pool import accepted_unread

Json = Mapping[str, Any]

_GIVEN = {
    "crossed": "every rater was assigned every item",
    "balanced": "items were assigned so that every two raters share about the same number",
    "crossover": "every rater was assigned every item, one version of each pair in each of two sessions",
    "pool": "each rater received the next item that still needed a rating, for as long as they wished",
}


def written(study: Study, design: Design, blinded: bool, made: Json | None = None, common: Spread | None = None) -> str:
    """Return the text of methods.txt.

    It contains nothing by source unless the analysis `document` is given. `shared_items` is the number of items that two raters share.
    """
    paragraphs = [
        [*_items(study, design, made), *_raters(design, made)],
        [*_dealt(study, design, blinded, common), *_shown(design)],
        [*_left_out(design), *_blinding(study, design, blinded), *_stopped(study, design)],
        _analysed(study, made) if made else ["This is the blinded archive: it contains nothing by source."],
    ]
    return "\n\n".join(" ".join(sentences) for sentences in paragraphs) + "\n"


def _items(study: Study, design: Design, made: Json | None) -> Iterator[str]:
    kind = (
        "the plausibility of single steps in"
        if study.kind == TRANSITION
        else "whether the evidence is sufficient in records of"
    )
    yield f"Raters judged {kind} simulated laboratory work. The question was: {study.question}"
    sources = _listed([str(source) for source in design.protocol.sources])
    imported = f"{design.imported_items:,} were imported" if design.imported_items else ""
    origins = _listed([part for part in (f"the protocol requests {sources}" if sources else "", imported) if part])
    yield f"There were {_many(design.items, 'item')}{'; ' if origins else ''}{origins}."
    if made and (counts := made["composition"]["references_said"]):
        yield f"Reference labels of the rated items: {counts}."
    elif made and (share := made["composition"]["planted_share"]) is not None:
        yield f"An error was planted in {share:.1%} of the rated items."
    elif design.protocol.prevalence:
        yield f"According to the protocol, an error is planted in {design.protocol.prevalence:.1%} of the items from the pool."
    if design.protocol.prevalence:
        yield f"Review of planted errors: {_lower(WORDS['vetting'][design.protocol.vetting].name)}."
    if made and accepted_unread.says_unread(study):
        yield f"Errors planted by a model were {accepted_unread.SAID}."
    if made and made["reference"]["name"] != NO_TRUTH:
        yield f"All numbers on errors use this reference: {made['reference']['description']}."


def _raters(design: Design, made: Json | None) -> Iterator[str]:
    groups = [_who(group, design.raters[group]) for group in WHO if design.raters.get(group)]
    yield f"{_many(design.ratings, 'rating')} that count{'s' * (design.ratings == 1)} came from {_listed(groups) or 'nobody'}."
    if made and made["composition"]["machines"]:
        model_raters = _listed(list(made["composition"]["machines"]))
        yield f"Model raters rated the same frozen items and are excluded from all numbers on raters: {model_raters}."


def _who(who: str, n: int) -> str:
    match who:
        case "simulated":
            return f"{_many(n, 'simulated rater')} (programs that know which errors were planted and add noise to that knowledge; their results are not evidence about people)"
        case "simulated, imported":
            return f"{_many(n, 'simulated rater')} whose ratings were collected elsewhere and imported (not evidence about people)"
        case "imported":
            return f"{_many(n, 'rater')} whose ratings were collected elsewhere and imported"
        case _:
            return f"{n:,} {'person' if n == 1 else 'people'}"


def _dealt(study: Study, design: Design, blinded: bool, common: Spread | None) -> Iterator[str]:
    protocol, ratings_per_item = design.protocol, design.per_item
    yield f"The design was {protocol.design}: {_GIVEN[protocol.design]}."
    if protocol.is_crossover:
        days = _many(protocol.washout_days, "day")
        yield (
            f"The sessions compared {_lower(WORDS['conditions'][protocol.conditions or ''].name)}: half of the raters read in "
            f"session 1 the version that the others read in session 2, with a washout of at least {days} between the sessions."
        )
    requested = f"{_many(study.ratings_per_item, 'rating')} of each item {'was' if study.ratings_per_item == 1 else 'were'} requested"
    yield f"{requested}; {'every item' if ratings_per_item.least == ratings_per_item.most else 'items'} had {_spread(ratings_per_item)}."
    if common:
        yield f"Any two raters share {_spread(common)} items with a verdict from both."
    # Together with the seed, the salt determines orders and arms: known early, it would let anyone recompute them.
    salt = "a salt that is withheld until unblinding" if blinded else f"the salt {study.salt}"
    # orders and arms are those of ratings collected here; imported ones have none
    if set(design.raters) - ELSEWHERE:
        yield f"Each rater had their own order of items; orders, assignments and arms were drawn from the seed {study.seed} and {salt}."
    if ELSEWHERE & set(design.raters):
        yield "It is not known how items of imported ratings were assigned and shown."
    if protocol.practice:
        practice = (
            f"The protocol requires {_many(protocol.practice, 'practice item')} with explanations before the first item"
        )
        yield f"{practice}; {design.practised:,} raters answered at least one, and these answers are not counted."
    else:
        yield "There was no practice."
    if protocol.repeats:
        yield (
            f"{protocol.repeats:.0%} of a rater's items were shown a second time, at least {protocol.repeat_distance} items later, "
            f"used only for test-retest agreement: {_many(design.repeats, 'such rating')}."
        )
    else:
        yield "No rater was shown an item twice."


def _shown(design: Design) -> Iterator[str]:
    unit = {"rater": "each rater", "item": "each item of a rater"}[design.protocol.display.by]
    for name, shares in design.arms.items():
        arms = [f"{arm} {share:.1%}" for arm, share in shares.items()]
        assignment = (
            f"{', '.join(arms)} of the assigned items, drawn for {unit}"
            if len(arms) > 1
            else f"{next(iter(shares))} throughout"
        )
        yield f"{name[0].upper()}{name[1:]}: {assignment}."
    if design.guides > 1:
        yield f"The instructions had {design.guides} versions; every rating records the version that its rater had read."


def _left_out(design: Design) -> Iterator[str]:
    reasons = [f"{n:,} {reason}" for reason, n in design.left_out.items() if n]
    yield f"Ratings excluded from every number: {_listed(reasons)}." if reasons else "No rating was excluded."
    if design.cannot_judge:
        yield f"In {_many(design.cannot_judge, 'rating')} the rater could not judge; these are excluded from rates and agreement."
    if design.withdrawn:
        fate = "kept" if design.protocol.withdrawal == "keep" else "dropped"
        yield f"{_many(design.withdrawn, 'rater')} withdrew; under the protocol their ratings are {fate}."


def _blinding(study: Study, design: Design, blinded: bool) -> Iterator[str]:
    audit = certificate(study, blinded)
    if audit is None:
        yield "There is no blinding certificate: what is sent to raters was never audited."
    else:
        outcome = "passed" if audit["passed"] else "failed"
        yield (
            f"Everything sent to raters was audited for leaks on {_day(datetime.fromisoformat(audit['audited_at']))} and {outcome} "
            f"(SHA-256 of the report{' in certificate.json' if blinded else ''} {audit['sha256']})."
        )
    yield (
        f"Interim analyses of rates before unblinding: {design.looks}, all logged." if design.looks else "There was no interim analysis."
    )  # fmt: skip
    if study.unblinded_at:
        yield f"The study was unblinded on {_day(study.unblinded_at)}, in one logged step."
    else:
        yield "The study has not been unblinded."


def _stopped(study: Study, design: Design) -> Iterator[str]:
    protocol = design.protocol
    rule = (
        f"{protocol.stop_ratings:,} ratings" if protocol.stop == "ratings" and protocol.stop_ratings else WORDS["stop"][protocol.stop].name.lower()
    )  # fmt: skip
    outcome = "was met" if design.stop.met else "was not met: every number is interim"
    yield f"The stop rule ({rule}) {outcome}. {design.stop.said}"


def _analysed(study: Study, made: Json) -> list[str]:
    # in the order of METHODS, so that the numbering does not depend on the order of the results
    method_names = sorted({row["method"] for row in made["results"] if row["method"]}, key=list(METHODS).index)
    methods = "; ".join(f"({index}) {METHODS[name].replace(';', ',')}" for index, name in enumerate(method_names, 1))
    versions = ", ".join(f"{name} {number}" for name, number in made["made_with"].items())
    sentences = [
        f"Intervals are 95% intervals; results.json names the method of each: {methods}.",
        f"Resampling methods use {made['resamples']:,} resamples and the seed {made['seed']}.",
        "Numbers pooled over sources are always reported together with the numbers by source.",
        f"Computed by WetBench with {versions}, from the ratings with SHA-256 {made['data']['sha256']}.",
    ]
    return [*sentences, *made["notes"]]


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _spread(of: Spread) -> str:
    return f"{of.least:,}" if of.least == of.most else f"{of.least:,} to {of.most:,} (median {of.middle:g})"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _many(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _listed(parts: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
