"""Compute every statistic of a table in a fixed order: the summary on a study's page, in its files and in a terminal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ratings.stats import detection, proportions
from ratings.stats.agreement import agreement, dawid_skene
from ratings.stats.agreement.coefficients import ALPHA, coefficients
from ratings.stats.agreement.retest import retest
from ratings.stats.estimates import Estimate, estimate
from ratings.stats.panel_words import Section, counted, said_of, sections
from ratings.stats.table import ALL, REFERENCES, Ratings, Repeat

__all__ = ["Section", "about", "json_lines", "panel", "sections", "text_lines"]

YES_OR_NO = (
    "plausibility_rate", "auc_confidence_correct", "auc_unsigned_truth", "auc_signed", "type2_auc", "dprime", "criterion_c",
    "mrmc_mean_auc",
)  # fmt: skip
MOST_LINES = 60  # lines of one statistic in a terminal
_CATEGORIES = "the verdicts are categories; this statistic needs verdicts of 1 and 0"
_NO_CONFIDENCE = "no rating has a confidence"


def panel(
    table: Ratings,
    repeats: Sequence[Repeat] = (),
    *,
    seed: int = 0,
    resamples: int = 2000,
    min_overlap: int = agreement.MIN_OVERLAP,
) -> list[Estimate]:
    """Return rates, agreement, test-retest agreement, detection, and the latent truth if no reference is known; pooled and by source.

    Means over pairs are given for `min_overlap` and for 1. What a table does not allow is undefined, with the reason.
    """
    rows = [*_rates(table), *agreement.prevalence(table)]
    rows += _averages(table, min_overlap, seed, resamples)
    rows += _coefficients(table, seed, resamples)
    rows += agreement.pairs(table, min_overlap) or _no_pairs(table)
    rows += retest(repeats, seed=seed, resamples=resamples)
    if table.binary:
        rows += detection.panel(table, seed, resamples)
    else:
        rows += [estimate(stat, None, table.n, reason=_CATEGORIES) for stat in YES_OR_NO]
    return rows + dawid_skene.estimates(table, seed=seed)


def _rates(table: Ratings) -> list[Estimate]:
    by = None if table.sources == (ALL,) else "source"
    rows = proportions.rates(table, by=None)
    if by:
        rows += proportions.rates(table, by=by)
    rows += [*proportions.weighted(table, by=by), *proportions.rates(table, by="rater")]
    rows += proportions.mean_confidences(table, by=None)
    return rows + (proportions.mean_confidences(table, by=by) if by else [])


def _averages(table: Ratings, min_overlap: int, seed: int, resamples: int) -> list[Estimate]:
    rows = agreement.average(table, min_overlap, seed=seed, resamples=resamples)
    if min_overlap == 1:
        return rows
    if any(row.n["pairs_below_overlap"] for row in rows):
        return rows + agreement.average(table, 1, seed=seed, resamples=resamples)
    # All pairs have enough items in common: the same pairs and the same draws give the same numbers.
    return rows + [row._replace(args={**row.args, "min_overlap": 1}) for row in rows]


def _coefficients(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return the coefficients; alpha of confidence and of the signed rating is undefined where there is no such rating."""
    rows = coefficients(table, seed=seed, resamples=resamples)
    present = {row.args.get("of") for row in rows}
    for answer in ("confidence", "signed"):
        if answer not in present:
            reason = _CATEGORIES if answer == "signed" and not table.binary else _NO_CONFIDENCE
            rows.append(estimate(ALPHA, None, table.n, args={"level": "ordinal", "of": answer}, reason=reason))
    return rows


def _no_pairs(table: Ratings) -> list[Estimate]:
    return [estimate(stat, None, table.n, reason=agreement.NO_PAIRS) for stat in agreement.OF_TWO]


def json_lines(rows: Iterable[Estimate]) -> Iterator[str]:
    """Yield one JSON list, one result per line; undefined values are null."""
    prefix = "["
    for row in rows:
        yield prefix + json.dumps(row.to_json(), ensure_ascii=False, allow_nan=False) + "\n"
        prefix = ","
    yield "]\n" if prefix == "," else "[]\n"


def about(table: Ratings, left_out: Mapping[str, int], notes: Iterable[str] = ()) -> list[str]:
    """Return sentences that describe the ratings of the summary, to be read first."""
    n = table.n
    lines = [
        f"{counted('ratings', n['ratings'])} of {counted('items', n['items'])} by {counted('raters', n['raters'])}."
    ]
    if table.binary:
        lines.append("Verdicts are 1 (plausible, sufficient, true) and 0.")
    else:
        lines.append(f"Verdicts are categories: {', '.join(map(str, table.categories))}.")
    lines.append(f"Sources: {'; '.join(table.sources)}." if len(table.sources) > 1 else "There is one source.")
    with_reference = int((table.item_reference >= 0).sum())
    lines.append(f"Reference of {counted('items', with_reference)}: {REFERENCES[table.reference_name]}.")
    lines += [f"Left out: {counted('ratings', n)}: {reason}." for reason, n in left_out.items()]
    lines += [f"Note: {note}." for note in notes]
    return [*lines, *filter(None, [agreement.skew_note(table)])]


def text_lines(rows: Sequence[Estimate], head: Sequence[str]) -> Iterator[str]:
    """Yield the summary for a terminal: estimate, 95 % interval, method, every n, and why something is undefined."""
    yield from (said_of(line) for line in head)
    for section in sections(rows):
        yield ""
        yield section.title.upper()
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    letters = {method: chr(97 + index) for index, method in enumerate(dict.fromkeys(line.method for line in section.lines if line.method))}  # fmt: skip
    names = dict.fromkeys(line.name for line in section.lines)
    for name in names:
        statistic_lines = [line for line in section.lines if line.name == name]
        printed = statistic_lines[:MOST_LINES]
        width = max(len(said_of(line.of)) for line in printed)
        yield f"  {said_of(name)}"
        # Hundreds of pairs without an item in common would fill the screen with one sentence.
        if (
            len(statistic_lines) > 2
            and len({(line.value, line.reason) for line in statistic_lines}) == 1
            and statistic_lines[0].value == "undefined"
        ):
            yield f"    all {len(statistic_lines):,} undefined: {said_of(statistic_lines[0].reason)}"
            continue
        previous_reason = ""
        for line in printed:
            cells = (f"{said_of(line.of):{width}}", f"{line.value:>9}", f"{line.interval or 'no interval':16}")
            yield f"    {'  '.join(cells)}  {letters.get(line.method, ' ')}  n: {said_of(line.n)}"
            # A reason is printed once for consecutive lines that share it.
            if line.reason and (line.reason != previous_reason or not line.method):
                yield f"        {said_of(line.reason)}"
            previous_reason = line.reason
        if len(statistic_lines) > len(printed):
            yield f"    and {len(statistic_lines) - len(printed):,} more; --json has all"
    yield from (f"  ({letter}) {method}" for method, letter in letters.items())
