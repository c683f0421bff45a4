"""The methods paragraph: what was really done, in sentences and numbers that a paper can take over."""

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
    "crossed": "every rater was to rate every item",
    "balanced": "items were dealt out so that every two raters share about as many",
    "crossover": "every rater was to rate every item, one version of each pair in each of two sessions",
    "pool": "raters took the next item that still needed a rating, for as long as they liked",
}


def written(study: Study, design: Design, blinded: bool, made: Json | None = None, common: Spread | None = None) -> str:
    """The file. Nothing by source is in it unless `made`, the analysis, is given; `common`: items that two raters share."""
    paragraphs = [
        [*_items(study, design, made), *_raters(design, made)],
        [*_dealt(study, design, blinded, common), *_shown(design)],
        [*_left_out(design), *_blinding(study, design, blinded), *_stopped(study, design)],
        _analysed(study, made) if made else ["Nothing by source is in this archive: it is the blinded one."],
    ]
    return "\n\n".join(" ".join(sentences) for sentences in paragraphs) + "\n"


def _items(study: Study, design: Design, made: Json | None) -> Iterator[str]:
    kind = (
        "the plausibility of single steps of"
        if study.kind == TRANSITION
        else "whether the evidence suffices in records of"
    )
    yield f"Raters judged {kind} simulated laboratory work. The question was: {study.question}"
    asked = _listed([str(source) for source in design.protocol.sources])
    imported = f"{design.imported_items:,} were imported" if design.imported_items else ""
    wanted = _listed([part for part in (f"the protocol asks for {asked}" if asked else "", imported) if part])
    yield f"There were {_many(design.items, 'item')}{'; ' if wanted else ''}{wanted}."
    if made and (counts := made["composition"]["references_said"]):
        yield f"By what was done to them or declared, the rated items are: {counts}."
    elif made and (share := made["composition"]["planted_share"]) is not None:
        yield f"An error was planted in {share:.1%} of the items that were rated."
    elif design.protocol.prevalence:
        yield f"By the protocol an error is planted in {design.protocol.prevalence:.1%} of the items from the pool."
    if design.protocol.prevalence:
        yield f"Planted errors were checked by: {_lower(WORDS['vetting'][design.protocol.vetting].name)}."
    if made and accepted_unread.says_unread(study):
        yield f"Errors that a model planted were {accepted_unread.SAID}."
    if made and made["reference"]["name"] != NO_TRUTH:
        yield f"Every number on errors has this reference: {made['reference']['description']}."


def _raters(design: Design, made: Json | None) -> Iterator[str]:
    given = [_who(who, design.raters[who]) for who in WHO if design.raters.get(who)]
    yield f"{_many(design.ratings, 'rating')} that count{'s' * (design.ratings == 1)} came from {_listed(given) or 'nobody'}."
    if made and made["composition"]["machines"]:
        named = _listed(list(made["composition"]["machines"]))
        yield f"Machines rated the same frozen items and are in no number of the raters: {named}."


def _who(who: str, n: int) -> str:
    match who:
        case "simulated":
            return f"{_many(n, 'simulated rater')} (programs that know which errors were planted and blur that knowledge; they show nothing about people)"
        case "simulated, imported":
            return f"{_many(n, 'simulated rater')} whose ratings were made elsewhere and imported (they say nothing of people)"
        case "imported":
            return f"{_many(n, 'rater')} whose ratings were collected elsewhere and imported"
        case _:
            return f"{n:,} {'person' if n == 1 else 'people'}"


def _dealt(study: Study, design: Design, blinded: bool, common: Spread | None) -> Iterator[str]:
    protocol, overlap = design.protocol, design.per_item
    yield f"The design was {protocol.design}: {_GIVEN[protocol.design]}."
    if protocol.is_crossover:
        days = _many(protocol.washout_days, "day")
        yield (
            f"The sessions compared {_lower(WORDS['conditions'][protocol.conditions or ''].name)}: half of the raters read a "
            f"version in session 1 that the others read in session 2, with {days} of washout at least between them."
        )
    wanted = f"{_many(study.ratings_per_item, 'rating')} of each item {'was' if study.ratings_per_item == 1 else 'were'} wanted"
    yield f"{wanted}; {'every item' if overlap.least == overlap.most else 'items'} had {_spread(overlap)}."
    if common:
        yield f"Two raters share {_spread(common)} judged items."
    salt = "a salt that is kept until unblinding" if blinded else f"the salt {study.salt}"
    if set(design.raters) - ELSEWHERE:
        yield f"Each rater had an order of their own; orders, places and arms were drawn from the seed {study.seed} and {salt}."
    if ELSEWHERE & set(design.raters):
        yield "How imported ratings were dealt out and shown is not known."
    if protocol.practice:
        practice = (
            f"The protocol asks for {_many(protocol.practice, 'practice item')} with explanations before the first item"
        )
        yield f"{practice}; {design.practised:,} raters answered some, and these answers count nowhere."
    else:
        yield "There was no practice."
    if protocol.repeats:
        yield (
            f"{protocol.repeats:.0%} of a rater's items came a second time, {protocol.repeat_distance} or more items later, "
            f"for agreement with oneself alone: {_many(design.repeats, 'such rating')}."
        )
    else:
        yield "No item was shown twice to a rater."


def _shown(design: Design) -> Iterator[str]:
    by = {"rater": "each rater", "item": "each item of a rater"}[design.protocol.display.by]
    for name, shares in design.arms.items():
        told = [f"{arm} {share:.1%}" for arm, share in shares.items()]
        drawn = (
            f"{', '.join(told)} of the work dealt out, drawn for {by}"
            if len(told) > 1
            else f"{next(iter(shares))} throughout"
        )
        yield f"{name[0].upper()}{name[1:]}: {drawn}."
    if design.guides > 1:
        yield f"The instructions had {design.guides} versions; every rating names the one its rater had read."


def _left_out(design: Design) -> Iterator[str]:
    left = [f"{n:,} {why}" for why, n in design.left_out.items() if n]
    yield f"Left out of every number: {_listed(left)}." if left else "No rating was left out."
    if design.cannot_judge:
        yield f"In {_many(design.cannot_judge, 'rating')} the rater could not judge; these are in no rate and no agreement."
    if design.withdrawn:
        kept = "kept" if design.protocol.withdrawal == "keep" else "dropped"
        yield f"{_many(design.withdrawn, 'rater')} withdrew; by the protocol their ratings are {kept}."


def _blinding(study: Study, design: Design, blinded: bool) -> Iterator[str]:
    found = certificate(study, blinded)
    if found is None:
        yield "There is no blinding certificate: what raters were sent was never audited."
    else:
        held = "passed" if found["passed"] else "failed"
        yield (
            f"What raters were sent was audited for leaks on {_day(datetime.fromisoformat(found['audited_at']))} and {held} "
            f"(SHA-256 of the report{' as it stands in certificate.json' if blinded else ''} {found['sha256']})."
        )
    yield (
        f"Interim looks at rates before unblinding: {design.looks}, all logged." if design.looks else "No interim look was taken."
    )  # fmt: skip
    if study.unblinded_at:
        yield f"The study was unblinded on {_day(study.unblinded_at)}, in one logged step."
    else:
        yield "The study is not unblinded."


def _stopped(study: Study, design: Design) -> Iterator[str]:
    protocol = design.protocol
    rule = (
        f"{protocol.stop_ratings:,} ratings" if protocol.stop == "ratings" and protocol.stop_ratings else WORDS["stop"][protocol.stop].name.lower()
    )  # fmt: skip
    met = "was met" if design.stop.met else "was not met: every number is interim"
    yield f"The rule for stopping ({rule}) {met}. {design.stop.said}"


def _analysed(study: Study, made: Json) -> list[str]:
    used = sorted({row["method"] for row in made["results"] if row["method"]}, key=list(METHODS).index)
    how = "; ".join(f"({at}) {METHODS[name].replace(';', ',')}" for at, name in enumerate(used, 1))
    versions = ", ".join(f"{name} {number}" for name, number in made["made_with"].items())
    found = [
        f"Intervals are 95% intervals, and results.json names for each how it was made: {how}.",
        f"Those that resample use {made['resamples']:,} resamples and the seed {made['seed']}.",
        "Sources are never pooled without the same number by source beside it.",
        f"Computed by WetBench with {versions}, from the ratings with SHA-256 {made['data']['sha256']}.",
    ]
    return [*found, *made["notes"]]


def _day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _spread(of: Spread) -> str:
    return f"{of.least:,}" if of.least == of.most else f"{of.least:,} to {of.most:,} (median {of.middle:g})"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _many(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1]))) if parts else ""
