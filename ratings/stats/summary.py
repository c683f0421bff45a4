"""Compute every statistic of a table in a fixed order: the summary on a study's page, in its files and in a terminal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ratings.stats import detection, proportions
from ratings.stats.agreement import dawid_skene, pairwise
from ratings.stats.agreement.coefficients import ALPHA, estimate_coefficients
from ratings.stats.agreement.retest import estimate_retest
from ratings.stats.estimates import Estimate, build_estimate
from ratings.stats.ratings_table import ALL, REFERENCES, Ratings, RepeatedRating
from ratings.stats.summary_text import Section, build_sections, escape_unprintable, format_sample_size

__all__ = ["Section", "build_sections", "compute_summary", "describe_ratings", "format_json_lines", "format_text_lines"]

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
    """Return rates, agreement, test-retest agreement, detection and, if no reference is known, the estimated latent truth.

    Most are given for all sources together and for each source. Means over pairs of raters are given for pairs with at least
    `min_overlap` shared items, and for pairs with at least 1. Statistics that cannot be computed are undefined, with the reason.
    """
    rows = [*_estimate_rates(table), *pairwise.estimate_prevalence(table)]
    rows += _estimate_pair_means(table, min_overlap, seed, resamples)
    rows += _estimate_coefficients(table, seed, resamples)
    rows += pairwise.estimate_pairs(table, min_overlap) or _list_undefined_pairs(table)
    rows += estimate_retest(repeats, seed=seed, resamples=resamples)
    if table.is_binary:
        rows += detection.summarise_detection(table, seed, resamples)
    else:
        rows += [build_estimate(stat, None, table.sample_sizes, reason=_NOT_BINARY) for stat in BINARY_STATISTICS]
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
    """Return the agreement coefficients; alpha of the confidence and of the signed rating is undefined if ratings
    have none.
    """
    rows = estimate_coefficients(table, seed=seed, resamples=resamples)
    present = {row.args.get("of") for row in rows}
    for answer in ("confidence", "signed"):
        if answer not in present:
            reason = _NOT_BINARY if answer == "signed" and not table.is_binary else _NO_CONFIDENCE
            rows.append(
                build_estimate(ALPHA, None, table.sample_sizes, args={"level": "ordinal", "of": answer}, reason=reason)
            )
    return rows


def _list_undefined_pairs(table: Ratings) -> list[Estimate]:
    return [
        build_estimate(stat, None, table.sample_sizes, reason=pairwise.NO_PAIRS) for stat in pairwise.PAIR_STATISTICS
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
    n = table.sample_sizes
    lines = [
        f"{format_sample_size('ratings', n['ratings'])} of {format_sample_size('items', n['items'])} by {format_sample_size('raters', n['raters'])}."
    ]
    if table.is_binary:
        lines.append("Verdicts are 1 (plausible, sufficient, true) and 0.")
    else:
        lines.append(f"Verdicts are categories: {', '.join(map(str, table.categories))}.")
    lines.append(f"Sources: {'; '.join(table.sources)}." if len(table.sources) > 1 else "There is one source.")
    with_reference = int((table.item_reference >= 0).sum())
    lines.append(f"Reference of {format_sample_size('items', with_reference)}: {REFERENCES[table.reference_name]}.")
    lines += [f"Left out: {format_sample_size('ratings', n)}: {reason}." for reason, n in left_out.items()]
    lines += [f"Note: {note}." for note in notes]
    return [*lines, *filter(None, [pairwise.describe_skew(table)])]


def format_text_lines(rows: Sequence[Estimate], introduction: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a summary for a terminal: estimates, 95% intervals, methods, sample sizes, and reasons for
    missing numbers.
    """
    yield from (escape_unprintable(line) for line in introduction)
    for section in build_sections(rows):
        yield ""
        yield section.title.upper()
        yield from _format_section(section)


def _format_section(section: Section) -> Iterator[str]:
    letters = {method: chr(97 + index) for index, method in enumerate(dict.fromkeys(line.method for line in section.lines if line.method))}  # fmt: skip
    names = dict.fromkeys(line.name for line in section.lines)
    for name in names:
        statistic_lines = [line for line in section.lines if line.name == name]
        printed = statistic_lines[:MAX_LINES]
        width = max(len(escape_unprintable(line.scope)) for line in printed)
        yield f"  {escape_unprintable(name)}"
        # Otherwise hundreds of pairs that share no item would fill the screen with the same sentence.
        if (
            len(statistic_lines) > 2
            and len({(line.value, line.reason) for line in statistic_lines}) == 1
            and statistic_lines[0].value == "undefined"
        ):
            yield f"    all {len(statistic_lines):,} undefined: {escape_unprintable(statistic_lines[0].reason)}"
            continue
        previous_reason = ""
        for line in printed:
            cells = (
                f"{escape_unprintable(line.scope):{width}}",
                f"{line.value:>9}",
                f"{line.interval or 'no interval':16}",
            )
            yield f"    {'  '.join(cells)}  {letters.get(line.method, ' ')}  n: {escape_unprintable(line.n)}"
            # Consecutive lines with the same reason print it only once.
            if line.reason and (line.reason != previous_reason or not line.method):
                yield f"        {escape_unprintable(line.reason)}"
            previous_reason = line.reason
        if len(statistic_lines) > len(printed):
            yield f"    and {len(statistic_lines) - len(printed):,} more; --json has all"
    yield from (f"  ({letter}) {method}" for method, letter in letters.items())
