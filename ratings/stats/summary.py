"""Compute every statistic of a table in a fixed order: the summary on a study's page, in its files and in a terminal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ratings.stats import dawid_skene, detection, pairwise, proportions
from ratings.stats.coefficients import ALPHA, estimate_coefficients, estimate_retest
from ratings.stats.estimates import Estimate, build_estimate
from ratings.stats.ratings_table import ALL, REFERENCES, Ratings, RepeatedRating
from ratings.stats.summary_text import Section, build_sections, escape_unprintable, format_sample_size

BINARY_STATISTICS = (
    "plausibility_rate", "auc_confidence_correct", "auc_unsigned_truth", "auc_signed", "type2_auc", "dprime", "criterion_c",
    "mrmc_mean_auc",
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
) -> list[Estimate]:
    """Return rates, agreement, retest, detection and, without a reference, the latent truth; most also by source.

    Means over pairs are for pairs with `min_overlap` and with 1 shared items. What cannot be computed is undefined,
    with the reason.
    """
    n = table.sample_sizes
    rows = [*_estimate_rates(table), *pairwise.estimate_prevalence(table)]
    rows += _estimate_pair_means(table, min_overlap, seed, resamples)
    rows += _estimate_coefficients(table, seed, resamples)
    no_pairs = [build_estimate(stat, None, n, reason=pairwise.NO_PAIRS) for stat in pairwise.PAIR_STATISTICS]
    rows += pairwise.estimate_pairs(table, min_overlap) or no_pairs
    rows += estimate_retest(repeats, seed=seed, resamples=resamples)
    if table.is_binary:
        rows += detection.summarise_detection(table, seed, resamples)
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


def _estimate_pair_means(table: Ratings, min_overlap: int, seed: int, resamples: int) -> list[Estimate]:
    rows = pairwise.estimate_pair_means(table, min_overlap, seed=seed, resamples=resamples)
    if min_overlap == 1:
        return rows
    if any(row.n["pairs_below_overlap"] for row in rows):
        return rows + pairwise.estimate_pair_means(table, 1, seed=seed, resamples=resamples)
    # If all pairs share enough items, the means with `min_overlap` 1 are over the same pairs and resamples, so they are equal.
    return rows + [row._replace(args={**row.args, "min_overlap": 1}) for row in rows]


def _estimate_coefficients(table: Ratings, seed: int, resamples: int) -> list[Estimate]:
    """Return the agreement coefficients; alpha of confidence and signed rating is undefined without confidences."""
    rows = estimate_coefficients(table, seed=seed, resamples=resamples)
    present = {row.args.get("of") for row in rows}
    for answer in ("confidence", "signed"):
        if answer not in present:
            reason = _NOT_BINARY if answer == "signed" and not table.is_binary else _NO_CONFIDENCE
            args = {"level": "ordinal", "of": answer}
            rows.append(build_estimate(ALPHA, None, table.sample_sizes, args, reason=reason))
    return rows


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
    """Yield the lines of a summary for a terminal."""
    yield from (escape_unprintable(line) for line in introduction)
    for section in build_sections(rows):
        yield ""
        yield section.title.upper()
        yield from _format_section(section)


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
            numbers = f"{line.value:>9}  {line.interval or 'no interval':16}  {letters.get(line.method, ' ')}"
            yield f"    {escape_unprintable(line.scope):{width}}  {numbers}  n: {escape_unprintable(line.n)}"
            # Consecutive lines with the same reason print it only once.
            if line.reason and (line.reason != previous_reason or not line.method):
                yield f"        {escape_unprintable(line.reason)}"
            previous_reason = line.reason
        if len(statistic_lines) > len(printed):
            yield f"    and {len(statistic_lines) - len(printed):,} more; --json has all"
    yield from (f"  ({letter}) {method}" for method, letter in letters.items())
