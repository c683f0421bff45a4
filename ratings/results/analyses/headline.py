"""The five numbers that come first."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ratings.models import TRANSITION, Study
from ratings.results.analyses.reading import Reading
from ratings.results.analyses.sections_rates import find_published_rate
from ratings.results.analyses.tables import Json, records
from ratings.results.declared_models import DeclaredModel
from ratings.results.paper_values import NOT_REPORTED, PaperValue, find_paper_value, load_paper_values
from ratings.stats import Estimate, Ratings, proportions
from ratings.stats.nouns import counted
from ratings.stats.proportions import NO_RATINGS
from ratings.stats.table import (
    DECLARED,
    MIXED,
    NOT_STATED,
    PLANTED,
    UNKNOWN,
    WITH_ERROR,
    WITHOUT_ERROR,
    explain_missing,
)
from ratings.studies.progress.stopping import Stop

_PLAUSIBLE = {
    PLANTED: "Plausible, no planted error",
    DECLARED: "Plausible, declared right",
    MIXED: "Plausible, no planted or declared error",
    UNKNOWN: "Plausible, no planted error",
}


class Published(NamedTuple):
    """The paper's value beside one of ours, in a sentence. `value` is None where it is of another model, or of several."""

    value: float | None
    said: str


def five(
    study: Study,
    read: Reading,
    stop: Stop,
    tables: Mapping[str, Json],
    results: Sequence[Estimate],
    declared: Mapping[str, DeclaredModel],
) -> list[Json]:
    """key, name, kind (count, share, number), value, low, high, said (what it rests on), published (value, said; the value
    is None where it would be of another model, or of several) or None, reason (why a number or an interval is missing)."""
    first = _collected(read, stop)
    if study.kind == TRANSITION:
        every = [
            first,
            _plausible(read, study.kind, declared),
            _caught(read),
            _agreement(study, results),
            _auc(read, results),
        ]
    else:
        every = [first, _sufficient(read), _agreement(study, results), *_beside_classifiers(read, tables)]
    return [_tell_simulated(read, one) for one in every]


def _tell_simulated(read: Reading, one: Json) -> Json:
    """Add to the paper's number that ours are of simulated raters, where they are."""
    simulated = read.columns.simulated[read.columns.judged]
    if one["published"] is None or not simulated.any():
        return one
    ours = "Ours are of simulated raters." if simulated.all() else "Some of our raters are simulated."
    return {**one, "published": {**one["published"], "said": f"{one['published']['said']} {ours}"}}


def _entry(
    key: str,
    name: str,
    kind: str,
    value: float | None,
    said: str,
    *,
    interval: tuple[float | None, float | None] = (None, None),
    paper: Published | None = None,
    reason: str = "",
) -> Json:
    return {
        "key": key,
        "name": name,
        "kind": kind,
        "value": value,
        "low": interval[0],
        "high": interval[1],
        "said": said,
        "published": paper._asdict() if paper else None,
        "reason": reason,
    }


def _collected(read: Reading, stop: Stop) -> Json:
    n = int(read.columns.counts.sum())
    wanted = f"{stop.wanted:,} are wanted" if stop.wanted else "no number was set"
    raters = len(np.unique(read.columns.rater[read.columns.counts]))
    items = len(np.unique(read.columns.item[read.columns.counts]))
    unable = int(np.sum(read.columns.counts & (read.columns.verdict < 0)))
    parts = [f"by {counted(raters, 'rater')} on {counted(items, 'item')}"]
    parts += [f"{unable:,} could not be judged"] if unable else []
    parts.append(wanted if n == stop.given else f"in the whole study {stop.given:,} count and {wanted}")
    return _entry("collected", "Ratings collected", "count", n, "; ".join(parts))


def _published(entry: PaperValue | None) -> Published | None:
    return Published(entry.value, entry.description) if entry else None


def _published_rates(kind: str, models: Sequence[DeclaredModel | None]) -> Published | None:
    """Return the paper's rates of unperturbed outcomes; the value where all these sources are of one model it is about."""
    of_sources = {find_published_rate(kind, model, "none") for model in models}
    only = of_sources.pop() if len(of_sources) == 1 else None
    if only is not None:
        return _published(only)
    known = [e for e in load_paper_values() if (e.quantity, e.study, e.error) == ("plausibility_rate", kind, "none")]
    listed = " and ".join(f"{e.value:.0%} for {e.model}" for e in known if e.value is not None)
    return Published(None, f"Published: {listed} ({NOT_REPORTED}).") if listed else None


def _plausible(read: Reading, kind: str, declared: Mapping[str, DeclaredModel]) -> Json:
    own = read.table.where(read.table.reference == 1)
    paper = _published_rates(kind, [declared.get(own.sources[at]) for at in np.unique(own.source)])
    name = read.table.reference_name
    missing = explain_missing(name, 1) if len(read.table) else NO_RATINGS
    return _share_of("plausible_unperturbed", _PLAUSIBLE[name], own, _comparable(read, paper), missing)


def _comparable(read: Reading, paper: Published | None) -> Published | None:
    """Return the paper's value only where our number has the paper's reference: what was done to the item."""
    return paper if read.table.reference_name in (PLANTED, UNKNOWN) else None


def _caught(read: Reading) -> Json:
    codes, names = read.table.factors["error"]
    mine = codes == names.index("subtle") if "subtle" in names else np.zeros(len(read.table), dtype=np.bool_)
    own = read.table.where(mine & (read.table.reference == 0))
    found = replace(own, verdict=1 - own.verdict)
    return _share_of("subtle_caught", "Subtle errors caught", found, None, _explain_none_subtle(read.table))


def _explain_none_subtle(ratings: Ratings) -> str:
    """Return why no rating is of a subtle planted error."""
    if not len(ratings):
        return NO_RATINGS
    if ratings.reference_name == DECLARED:
        return "no item states its perturbation: import a column `perturbation`"
    return NOT_STATED.get(ratings.reference_name, "no subtle error was planted")


def _sufficient(read: Reading) -> Json:
    return _share_of("sufficient", "Called sufficient", read.table, None, NO_RATINGS)


def _share_of(key: str, name: str, own: Ratings, paper: Published | None, missing: str) -> Json:
    """Of these ratings, the share with verdict 1, all sources together. `missing`: why there are none, if there are none."""
    found: list[Estimate] = proportions.rates(own, by=None)
    main = found[0]
    sources = len(np.unique(own.source))
    pooled = f"; {sources:,} sources together" if sources > 1 else ""
    said = f"{main.n.get('yes', 0):,} of {counted(main.n['ratings'], 'rating')}, {counted(main.n['items'], 'item')}{pooled}"
    return _entry(
        key,
        name,
        "share",
        main.value,
        said,
        interval=(main.low, main.high),
        paper=paper,
        reason=main.reason if len(own) else missing,
    )


def _agreement(study: Study, results: Sequence[Estimate]) -> Json:
    """Mean pairwise kappa over all sources, as the paper has it, with the observed agreement beside it."""
    main, observed = _result(results, "avg_pairwise_kappa"), _result(results, "avg_pairwise_agreement")
    seen = f"observed agreement {observed.value:.0%}; " if observed and observed.value is not None else ""
    pairs = main.n.get("pairs_used", 0) if main else 0
    said = f"{seen}{'one pair' if pairs == 1 else f'mean of {pairs:,} pairs'} of raters, all sources together"
    return _of_result(
        "agreement",
        "Agreement, mean kappa",
        main,
        said,
        _published(find_paper_value("avg_pairwise_kappa", study.kind, role="human")),
    )


def _auc(read: Reading, results: Sequence[Estimate]) -> Json:
    main = _result(results, "auc_confidence_correct")
    rated = counted(main.n.get("ratings", 0) if main else 0, "rating")
    name = read.table.reference_name
    said = f"confidence of correct against incorrect verdicts, {rated} of {WITH_ERROR[name]} and {WITHOUT_ERROR[name]} items"
    return _of_result(
        "auc",
        "AUC of confidence, correct against incorrect",
        main,
        said,
        _comparable(read, _published(find_paper_value("auc_confidence_correct", TRANSITION))),
    )


def _of_result(key: str, name: str, main: Estimate | None, said: str, paper: Published | None) -> Json:
    if main is None:
        return _entry(key, name, "number", None, said, paper=paper, reason=NO_RATINGS)
    return _entry(
        key, name, "number", main.value, said, interval=(main.low, main.high), paper=paper, reason=main.reason
    )


def _result(results: Sequence[Estimate], stat: str) -> Estimate | None:
    """The pooled one for these raters: the panel lists it first of its name."""
    return next((row for row in results if row.stat == stat and not {"source", "target"} & set(row.args)), None)


def _beside_classifiers(read: Reading, tables: Mapping[str, Json]) -> list[Json]:
    why_none = "no classifier judged these records" if len(read.table) else NO_RATINGS
    names = "human_model", "fractions"
    standings, shares = ([row for row in records(tables[name]) if row["kind"] == "classifier"] for name in names)
    return [_model_agreement(standings, why_none), _fraction(shares, why_none)]


def _model_agreement(rows: Sequence[Json], why_none: str) -> Json:
    if not rows:
        return _entry("model_agreement", "Agreement with the classifier", "number", None, "", reason=why_none)
    best = max(rows, key=lambda row: (row["kappa"] is not None, row["kappa"] or 0))
    on = f"{counted(best['raters_used'], 'rater')} on {counted(best['items'], 'item')}"
    interval = best["kappa_low"], best["kappa_high"]
    return _entry("model_agreement", "Agreement with the classifier", "number", best["kappa"],
                  f"mean kappa of {best['who']} with {on}", interval=interval, reason=best["reason"])  # fmt: skip


def _fraction(rows: Sequence[Json], why_none: str) -> Json:
    """How often the classifiers say sufficient, on the records that raters judged; of one alone as its table has it."""
    if not rows:
        return _entry("fraction", "Classifiers say sufficient", "share", None, "", reason=why_none)
    k, n, alone = sum(row["k"] for row in rows), sum(row["n"] for row in rows), len(rows) == 1
    interval = (rows[0]["low"], rows[0]["high"]) if alone else (None, None)
    reason = "" if alone else f"of {len(rows)} classifiers together; each has its interval in the table"
    said = f"{k:,} of {counted(n, 'verdict')} of {'the classifier' if alone else 'classifiers'}"
    return _entry("fraction", "Classifiers say sufficient", "share", k / n, said, interval=interval, reason=reason)
