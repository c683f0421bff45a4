"""Compute every statistic of a table in a fixed order: the summary on a study's page, in its files and in a terminal."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ratings.stats import dawid_skene, detection, pairwise, proportions
from ratings.stats.coefficients import ALPHA, estimate_coefficients
from ratings.stats.estimates import Estimate, build_estimate
from ratings.stats.ratings_table import ALL, REFERENCES, Ratings, RepeatedRating
from ratings.stats.retest import estimate_retest
from ratings.stats.summary_text import (
    UNSTABLE,
    Section,
    build_sections,
    describe_estimate,
    escape_unprintable,
    format_sample_size,
)
from ratings.stats.weighted_kappa import MEAN_WEIGHTED_KAPPA, WEIGHTED_KAPPA, estimate_weighted_kappas
from wetbench_site.text import format_count

BINARY_STATISTICS = (
    "plausibility_rate", "auc_confidence_correct", "auc_unsigned_truth", "auc_signed", "type2_auc", "dprime", "criterion_c",
    "mrmc_mean_auc", "mrmc_u_auc",
)  # fmt: skip
MAX_LINES = 60  # most lines of one statistic that are printed in a terminal
_NOT_BINARY = "the verdicts are categories; this statistic needs verdicts of 1 and 0"
_NO_CONFIDENCE = "no rating has a confidence"


def compute_summary(
    table: Ratings,
    repeats: Sequence[RepeatedRating] = (),
    *,
    seed: int = 0,
    resamples: int = 2000,
    min_overlap: int = pairwise.MIN_OVERLAP,
    show_unstable: bool = False,
) -> list[Estimate]:
    """Return rates, agreement, retest, detection and, without a reference, the latent truth; most also by source.

    Means over pairs are for pairs with `min_overlap` and with 1 shared items. What cannot be computed is undefined,
    with the reason. `show_unstable` also gives the intervals that are withheld because the sample is too small for them.
    """
    n = table.sample_sizes
    options: Any = {"seed": seed, "resamples": resamples, "show_unstable": show_unstable}
    rows = [*_estimate_rates(table), *pairwise.estimate_prevalence(table)]
    rows += _estimate_pair_means(table, min_overlap, options)
    rows += _estimate_coefficients(table, options)
    rows += _estimate_weighted_kappas(table, min_overlap, options)
    no_pairs = [build_estimate(stat, None, n, reason=pairwise.NO_PAIRS) for stat in pairwise.PAIR_STATISTICS]
    rows += pairwise.estimate_pairs(table, min_overlap, show_unstable=show_unstable) or no_pairs
    rows += estimate_retest(repeats, **options)
    if table.is_binary:
        rows += detection.summarise_detection(table, seed, resamples, show_unstable=show_unstable)
    else:
        rows += [build_estimate(stat, None, n, reason=_NOT_BINARY) for stat in BINARY_STATISTICS]
    return rows + dawid_skene.estimate_latent_truth(table, seed=seed)


def _estimate_rates(table: Ratings) -> list[Estimate]:
    by = None if table.sources == (ALL,) else "source"
    rows = proportions.estimate_rates(table, by=None)
    if by:
        rows += proportions.estimate_rates(table, by=by)
    rows += [*proportions.estimate_weighted_rates(table, by=by), *proportions.estimate_rates(table, by="rater")]
    rows += proportions.estimate_mean_confidences(table, by=None)
    return rows + (proportions.estimate_mean_confidences(table, by=by) if by else [])


def _estimate_pair_means(table: Ratings, min_overlap: int, options: Any) -> list[Estimate]:
    rows = pairwise.estimate_pair_means(table, min_overlap, **options)
    if min_overlap == 1:
        return rows
    if any(row.n["pairs_below_overlap"] for row in rows):
        return rows + pairwise.estimate_pair_means(table, 1, **options)
    # If all pairs share enough items, the means with `min_overlap` 1 are over the same pairs and resamples, so they are equal.
    return rows + [row._replace(args={**row.args, "min_overlap": 1}) for row in rows]


def _estimate_coefficients(table: Ratings, options: Any) -> list[Estimate]:
    """Return the agreement coefficients; alpha of confidence and signed rating is undefined without confidences."""
    rows = estimate_coefficients(table, **options)
    present = {row.args.get("of") for row in rows}
    for answer in ("confidence", "signed"):
        if answer not in present:
            reason = _NOT_BINARY if answer == "signed" and not table.is_binary else _NO_CONFIDENCE
            args = {"level": "ordinal", "of": answer}
            rows.append(build_estimate(ALPHA, None, table.sample_sizes, args, reason=reason))
    return rows


def _estimate_weighted_kappas(table: Ratings, min_overlap: int, options: Any) -> list[Estimate]:
    """Return the weighted kappas of ordered answers; undefined if there are none."""
    rows = estimate_weighted_kappas(table, min_overlap, **options)
    if rows:
        return rows
    n, args = table.sample_sizes, {"of": "confidence"}
    return [
        build_estimate(stat, None, n, args, reason=_NO_CONFIDENCE) for stat in (MEAN_WEIGHTED_KAPPA, WEIGHTED_KAPPA)
    ]


def format_json_lines(rows: Iterable[Estimate]) -> Iterator[str]:
    """Yield the lines of a JSON list with one result per line; undefined values are null."""
    prefix = "["
    for row in rows:
        yield prefix + json.dumps(row.to_dict(), ensure_ascii=False, allow_nan=False) + "\n"
        prefix = ","
    yield "]\n" if prefix == "," else "[]\n"


def describe_ratings(table: Ratings, left_out: Mapping[str, int], notes: Iterable[str] = ()) -> list[str]:
    """Return sentences that describe the ratings of a summary; they are printed before its results."""
    items, raters, ratings = (format_sample_size(name, count) for name, count in table.sample_sizes.items())
    with_reference = format_sample_size("items", int((table.item_reference >= 0).sum()))
    categories = f"Verdicts are categories: {', '.join(map(str, table.categories))}."
    lines = [
        f"{ratings} of {items} by {raters}.",
        "Verdicts are 1 (plausible, sufficient, true) and 0." if table.is_binary else categories,
        f"Sources: {'; '.join(table.sources)}." if len(table.sources) > 1 else "There is one source.",
        f"Reference of {with_reference}: {REFERENCES[table.reference_name]}.",
    ]
    lines += [f"Left out: {format_sample_size('ratings', n)}: {reason}." for reason, n in left_out.items()]
    lines += [f"Note: {note}." for note in notes]
    return [*lines, *filter(None, [pairwise.describe_skew(table)])]


def format_text_lines(rows: Sequence[Estimate], introduction: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a summary for a terminal. Unstable intervals are marked, and withheld ones listed at the end."""
    yield from (escape_unprintable(line) for line in introduction)
    for section in build_sections(rows):
        yield ""
        yield section.title.upper()
        yield from _format_section(section)
    if withheld := list_withheld(rows):
        total = sum(entry.intervals for entry in withheld)
        yield ""
        yield f"WITHHELD: {format_count(total, 'interval')} that would be too narrow or too variable in a sample like this"
        for entry in withheld:
            yield f"  {escape_unprintable(entry.name)}: {entry.intervals:,}, {escape_unprintable(entry.reason)}"
        yield f"  {ADVICE}"


ADVICE = "To print them all the same, marked as unstable, add --show-unstable."
CSV_COLUMNS = (
    "stat", "args", "name", "of", "value", "low", "high", "method", "unstable", "withheld", "items", "raters", "ratings", "reason",
)  # fmt: skip


class WithheldIntervals(NamedTuple):
    """The intervals of one statistic that are withheld for one reason; `reason` is that of the first of them."""

    name: str
    intervals: int
    reason: str


def list_withheld(rows: Iterable[Estimate]) -> list[WithheldIntervals]:
    """Return the withheld intervals by statistic and kind of reason, in the order of the rows."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.withheld and not row.is_unstable:
            line = describe_estimate(row)
            # The numbers in a reason differ from row to row.
            groups.setdefault((line.name, _NUMBERS.sub("", row.reason)), []).append(row.reason)
    return [WithheldIntervals(name, len(reasons), _name_first(reasons)) for (name, _), reasons in groups.items()]


_NUMBERS = re.compile(r"[\d.,]+")


def _name_first(reasons: Sequence[str]) -> str:
    return reasons[0] if len(set(reasons)) == 1 else f"such as: {reasons[0]}"


def iter_csv_rows(rows: Iterable[Estimate]) -> Iterator[list[Any]]:
    """Yield the cells of CSV_COLUMNS for each result; `args` are JSON, `name` and `of` the same in words."""
    for row in rows:
        line, args = describe_estimate(row), json.dumps(dict(row.args), ensure_ascii=False)
        sizes = [row.n.get(name) for name in ("items", "raters", "ratings")]
        flags = row.is_unstable, row.withheld and not row.is_unstable
        yield [
            row.stat,
            args,
            line.name,
            line.scope,
            row.value,
            row.low,
            row.high,
            row.method,
            *flags,
            *sizes,
            row.reason,
        ]


def _format_section(section: Section) -> Iterator[str]:
    methods = dict.fromkeys(line.method for line in section.lines if line.method)
    letters = {method: chr(97 + index) for index, method in enumerate(methods)}
    for name in dict.fromkeys(line.name for line in section.lines):
        statistic_lines = [line for line in section.lines if line.name == name]
        printed = statistic_lines[:MAX_LINES]
        width = max(len(escape_unprintable(line.scope)) for line in printed)
        yield f"  {escape_unprintable(name)}"
        # Otherwise hundreds of pairs that share no item would fill the screen with the same sentence.
        (value, reason), *others = {(line.value, line.reason) for line in statistic_lines}
        if len(statistic_lines) > 2 and not others and value == "undefined":
            yield f"    all {len(statistic_lines):,} undefined: {escape_unprintable(reason)}"
            continue
        previous_reason = ""
        for line in printed:
            mark = "?" if line.is_unstable else " "
            numbers = f"{line.value:>9}  {line.interval or 'no interval':16}{mark} {letters.get(line.method, ' ')}"
            yield f"    {escape_unprintable(line.scope):{width}}  {numbers}  n: {escape_unprintable(line.n)}"
            # Consecutive lines with the same reason print it only once.
            if line.reason and (line.reason != previous_reason or not line.method):
                yield f"        {escape_unprintable(line.reason)}"
            previous_reason = line.reason
        if len(statistic_lines) > len(printed):
            yield f"    and {len(statistic_lines) - len(printed):,} more; --json has all"
    yield from (f"  ({letter}) {method}" for method, letter in letters.items())
    if any(line.is_unstable for line in section.lines):
        yield f"  (?) {UNSTABLE}: the interval is too narrow or too variable in a sample like this; it is given because it was asked for"
