import json
from itertools import product

import pytest

from ratings.stats import summary, summary_text
from ratings.stats.estimates import build_estimate
from ratings.stats.ratings_table import RatingRecord, RepeatedRating, build_ratings_table
from tests.support.rating_tables import find_estimate

FOUR = ((0.9, 1, "model a"), (0.9, 1, "model b"), (0.1, 0, "obvious"), (0.7, 0, "subtle"))


def build_study():
    """Build ratings of four sources of twelve items by three raters; verdicts and confidences follow a rule without chance."""
    rows = []
    for share, truth, source in FOUR:
        for item in range(12):
            for rater in range(3):
                verdict = int((item + rater * (item % 3 == 0)) % 10 < share * 10)
                confidence = 1 + (item * 2 + rater + truth) % 5
                rows.append(RatingRecord(f"{source}-{item}", f"R{rater}", verdict, confidence, truth, source))
    return build_ratings_table(rows)


@pytest.fixture(scope="module")
def rows():
    return summary.compute_summary(build_study(), resamples=60)


def test_summary_has_every_statistic_under_its_name(rows) -> None:
    assert {row.stat for row in rows} >= {
        "percent_agreement", "cohen_kappa", "avg_pairwise_agreement", "avg_pairwise_kappa", "fleiss_kappa",
        "krippendorff_alpha", "gwet_ac1", "brennan_prediger", "plausibility_rate", "auc_confidence_correct",
        "auc_unsigned_truth", "auc_signed", "type2_auc", "dprime", "criterion_c", "mrmc_mean_auc",
        "avg_pairwise_weighted_kappa", "weighted_kappa",
    }  # fmt: skip
    assert {row.args["min_overlap"] for row in rows if row.stat == "avg_pairwise_kappa"} == {20, 1}
    alphas = {(row.args["level"], row.args["of"]) for row in rows if row.stat == "krippendorff_alpha"}
    assert alphas == {("nominal", "verdict"), *product(("ordinal", "interval"), ("confidence", "signed"))}
    assert {row.args.get("source") for row in rows if row.stat == "mrmc_mean_auc"} == {None, "obvious", "subtle"}


def test_summary_has_no_two_rows_with_the_same_name_and_args(rows) -> None:
    names = [json.dumps([row.stat, dict(row.args)], sort_keys=True) for row in rows]
    assert len(names) == len(set(names))


def test_summary_has_a_reason_for_every_undefined_value_and_two_ends_for_every_interval(rows) -> None:
    assert all(row.reason for row in rows if row.value is None)
    assert all((row.low is None) == (row.high is None) for row in rows)


def test_summary_has_a_reason_for_every_row_without_an_interval(rows) -> None:
    own = build_ratings_table(
        [RatingRecord(str(i), who, (i + at) % 3) for i in range(24) for at, who in enumerate("abc")], (0, 1, 2)
    )
    assert [
        row
        for row in [*rows, *summary.compute_summary(own, resamples=20)]
        if None in (row.value, row.low) and not row.reason
    ] == []
    assert (
        find_estimate(rows, "prevalence", source="subtle").reason == "beside plausibility_rate, which has the interval"
    )
    assert (
        find_estimate(summary.compute_summary(own, resamples=0), "prevalence", category=2).reason
        == "no interval is computed for the share of a category"
    )


def test_summary_rates_equal_those_computed_shown_to_admin(rows) -> None:
    # "obvious" says 1 where (item + rater * (item % 3 == 0)) % 10 < 1: items 0 and 10 and, by R1, 9: rater 0 items 0, 10;
    # rater 1 items 10 (0 -> 1) and 9 (9 + 1 = 10 -> 0); rater 2 item 10 (9 + 2 = 11 -> 1, no): 2 + 2 + 1 of 36.
    row = find_estimate(rows, "plausibility_rate", source="obvious")
    assert row.value == pytest.approx(5 / 36)
    assert row.n == {"items": 12, "raters": 3, "ratings": 36, "yes": 5}


def test_pair_means_for_minimum_overlap_1_and_20_are_equal_if_all_pairs_share_enough_items(rows) -> None:
    many = [row for row in rows if row.stat.startswith("avg_pairwise") and row.args["min_overlap"] == 20]
    few = [
        row
        for row in summary.compute_summary(build_study(), resamples=60, min_overlap=1)
        if row.stat.startswith("avg_pairwise")
    ]
    pooled = [row for row in many if "source" not in row.args]
    same = [row._replace(args={**row.args, "min_overlap": 1}) for row in pooled]
    assert same == [row for row in few if "source" not in row.args]
    # 12 items a source are fewer than 20: the same mean of the same pairs, marked and without an interval.
    marked, plain = (find_estimate(rows, "avg_pairwise_kappa", min_overlap=least, source="subtle") for least in (20, 1))
    assert marked.value == plain.value and marked.value is not None
    assert (marked.low, marked.reason[:9], plain.reason[:9] == "few items") == (None, "few items", False)


def test_pair_means_copied_for_minimum_overlap_1_equal_computed_ones() -> None:
    # All pairs share 48 items and there is one source, so the panel does not draw again for 1.
    whole = build_ratings_table([row._replace(source="all", reference=None) for row in build_study().to_records()])
    taken, computed = (
        [
            row
            for row in summary.compute_summary(whole, resamples=40, min_overlap=least)
            # The weighted kappas are computed for one minimum only.
            if row.args.get("min_overlap") == 1 and row.stat != "avg_pairwise_weighted_kappa"
        ]
        for least in (20, 1)
    )
    assert taken == computed and taken


def test_summary_is_reproducible_and_independent_of_row_order(rows) -> None:
    again = summary.compute_summary(build_ratings_table(build_study().to_records()[::-1]), resamples=60)
    assert "".join(summary.format_json_lines(rows)) == "".join(summary.format_json_lines(again))
    other = summary.compute_summary(build_study(), resamples=60, seed=1)
    assert [row.value for row in other] == [row.value for row in rows]
    assert other != rows


def test_summary_json_is_one_list_with_the_documented_keys(rows) -> None:
    data = json.loads("".join(summary.format_json_lines(rows)))
    keys = ["stat", "args", "value", "low", "high", "method", "n", "reason", "reference"]
    assert all(list(row) == [*keys, "withheld"] if "withheld" in row else list(row) == keys for row in data)
    # 12 items of a source are too few for an interval of its mean kappa.
    withheld = [row for row in data if row.get("withheld")]
    assert {"avg_pairwise_kappa", "avg_pairwise_weighted_kappa"} <= {row["stat"] for row in withheld}
    assert all(row["value"] is not None and row["low"] is None and row["reason"] for row in withheld)
    assert json.loads("".join(summary.format_json_lines([]))) == []


def test_summary_of_unordered_categories_has_nominal_coefficients_and_reasons_for_the_rest() -> None:
    own = build_ratings_table(
        [
            RatingRecord(str(i), who, "xyz"[(i + at) % 3 if i % 4 else 0])
            for i in range(24)
            for at, who in enumerate("abc")
        ],
        "xyz",
    )
    rows = summary.compute_summary(own, resamples=20)
    assert find_estimate(rows, "gwet_ac1").value is not None
    assert find_estimate(rows, "cohen_kappa", raters=["a", "b"]).value is not None
    assert (
        find_estimate(rows, "plausibility_rate").reason
        == "the verdicts are categories; this statistic needs verdicts of 1 and 0"
    )
    assert find_estimate(rows, "mrmc_mean_auc").value is None
    assert (
        find_estimate(rows, "krippendorff_alpha", level="ordinal", of="confidence").reason
        == "no rating has a confidence"
    )
    assert "categories" in find_estimate(rows, "krippendorff_alpha", level="ordinal", of="signed").reason


def test_summary_without_confidences_or_a_second_rater_gives_reasons() -> None:
    rows = summary.compute_summary(
        build_ratings_table([RatingRecord("i", "a", 1), RatingRecord("j", "a", 0)]), resamples=0
    )
    for of in ("confidence", "signed"):
        row = find_estimate(rows, "krippendorff_alpha", level="ordinal", of=of)
        assert (row.value, row.reason) == (None, "no rating has a confidence")
    for stat in ("percent_agreement", "cohen_kappa"):
        assert find_estimate(rows, stat).reason == "there are fewer than two raters with ratings"


def test_sample_size_of_1_is_in_the_singular() -> None:
    n = {
        "items": 1,
        "pairs_used": 1,
        "pairs_below_overlap": 1,
        "misses": 1,
        "false_alarms": 1,
        "positives": 1,
        "yes": 2,
    }
    line = summary_text.build_sections([build_estimate("dprime", 0.5, n)])[0].lines[0]
    assert line.n == (
        "1 item, 1 pair used, 1 pair below the overlap, 1 miss, 1 false alarm, 1 of items without an error, 2 verdicts 1"
    )
    assert (
        summary.describe_ratings(build_ratings_table([RatingRecord("i", "a", 1, 3, 1)]), {"surplus": 1})[0]
        == "1 rating of 1 item by 1 rater."
    )


def test_resamples_that_were_not_drawn_are_not_reported_as_undefined(rows) -> None:
    # In each source pairs share twelve items of nearly one verdict, so no interval of kappa is asked for.
    few = find_estimate(rows, "avg_pairwise_kappa", min_overlap=1, source="obvious")
    assert "below" in few.reason and "undefined_resamples" not in few.n


def test_pair_mean_over_pairs_with_few_shared_items_is_not_labelled_with_the_minimum_overlap() -> None:
    args = {"min_overlap": 20}
    few = build_estimate(
        "avg_pairwise_kappa", 0.5, {}, args=args, reason="few items: no pair shares 20 items, the most is 6"
    )
    whole = build_estimate("avg_pairwise_kappa", 0.5, {}, args=args, reason="no interval was asked for")
    names = [line.name for section in summary_text.build_sections([few, whole]) for line in section.lines]
    assert names == [
        "Cohen's kappa, mean over pairs of raters",
        "Cohen's kappa, mean over pairs of raters (with 20 items or more in common)",
    ]


def test_terminal_shows_one_line_for_many_results_that_are_undefined_for_the_same_reason() -> None:
    own = build_ratings_table([RatingRecord(str(i), who, i % 2) for i in range(3) for who in "abcde"])
    text = "\n".join(summary.format_text_lines(summary.compute_summary(own, resamples=0), []))
    assert "    all 6 undefined: no item states its perturbation: import a column `perturbation` or `truth`" in text


def test_summary_includes_repeats_and_a_latent_truth() -> None:
    blind = build_ratings_table([row._replace(reference=None) for row in build_study().to_records()])
    rows = summary.compute_summary(
        blind, [RepeatedRating("model a-0", "R0", 1, 1), RepeatedRating("model a-1", "R0", 1, 0)], resamples=0
    )
    assert find_estimate(rows, "retest_agreement").value == 1 / 2
    assert find_estimate(rows, "dawid_skene_prevalence", category=1).method == "estimate"
    assert find_estimate(rows, "dawid_skene_prevalence", category=1).value is not None


@pytest.mark.parametrize(
    "given",
    [[], [RatingRecord("i", "r", 1)], [RatingRecord("i", "r", 1, 3, 1, "s"), RatingRecord("j", "r", 0, 2, 0, "t")]],
)
def test_summary_of_very_few_ratings_has_a_value_or_a_reason_in_every_row(given) -> None:
    rows = summary.compute_summary(build_ratings_table(given), resamples=20)
    assert all(row.value is not None or row.reason for row in rows)
    assert list(summary.format_text_lines(rows, summary.describe_ratings(build_ratings_table(given), {})))


def test_summary_sections_describe_every_result_in_words(rows) -> None:
    titles = [section.title for section in summary_text.build_sections(rows)]
    assert titles == [
        "Rates", "Agreement of raters", "Pairs of raters", "Test-retest agreement", "Areas under ROC curves",
        "Signal detection", "Estimated latent truth",
    ]  # fmt: skip
    lines = [line for section in summary_text.build_sections(rows) for line in section.lines]
    assert len(lines) == len(rows)
    rate = next(line for line in lines if line.scope == "obvious")
    assert (rate.name, rate.value) == ("Share of verdict 1", "0.139")
    assert rate.n == "12 items, 3 raters, 36 ratings, 5 verdicts 1"
    assert "new raters" in rate.method and " to " in rate.interval
    assert all(line.reason for line in lines if line.value == "undefined")


def test_a_statistic_without_a_label_is_shown_under_its_key() -> None:
    section = summary_text.build_sections([build_estimate("something_else", 0.5, {"items": 1}, args={"who": "x"})])[0]
    assert (section.title, section.lines[0].name, section.lines[0].scope) == (
        "Other",
        "something else",
        "all together, who x",
    )
    assert section.lines[0].n == "1 item"


def test_terminal_shows_numbers_methods_and_reasons(rows) -> None:
    text = "\n".join(
        summary.format_text_lines(rows, summary.describe_ratings(build_study(), {"surplus": 3}, ["a note"]))
    )
    assert text.startswith("144 ratings of 48 items by 3 raters.")
    assert "Left out: 3 ratings: surplus." in text and "Note: a note." in text
    assert "Cohen's kappa, mean over pairs of raters (with 20 items or more in common)" in text
    assert "few items: no pair shares 20 items, the most is 12" in text
    assert "(a) Wilson with the effective n of items and raters" in text


def test_terminal_escapes_control_characters_in_names() -> None:
    own = build_ratings_table(
        [RatingRecord(str(i), who, i % 2, source="s\x1b[2J") for i in range(4) for who in ("\x1b]0;x\x07", "b")]
    )
    text = "\n".join(
        summary.format_text_lines(summary.compute_summary(own, resamples=0), summary.describe_ratings(own, {}))
    )
    assert "\x1b" not in text and "\\x1b" in text


def test_terminal_cuts_a_long_list_of_pairs_and_counts_the_rest() -> None:
    rows = [build_estimate("cohen_kappa", 0.5, {"items": 30}, args={"raters": [f"a{i}", "b"]}) for i in range(100)]
    text = "\n".join(summary.format_text_lines(rows, []))
    assert "and 40 more; --json has all" in text and "a59 and b" in text and "a60 and b" not in text


def test_summary_of_whole_number_verdicts_has_ordinal_coefficients() -> None:
    # Gwet's five observers, R irrCAC's cac.raw5obser; computed with R irrCAC 1.4 and krippendorff 0.9.0, not published.
    table = [
        "112.2",
        "1101.",
        "2333.",
        ".00.0",
        "000.0",
        "000.0",
        "102.1",
        "1.20.",
        "222.2",
        "2111.",
        ".100.",
        "0000.",
        "1222.",
        "33223",
        "111.1",
    ]
    rows = [
        RatingRecord(str(item), f"O{at}", int(sign))
        for item, said in enumerate(table)
        for at, sign in enumerate(said)
        if sign != "."
    ]
    found_rows = summary.compute_summary(build_ratings_table(rows, (0, 1, 2, 3)), resamples=0)
    assert find_estimate(found_rows, "krippendorff_alpha", level="ordinal", of="verdict").value == pytest.approx(
        0.7686851595
    )
    assert find_estimate(found_rows, "krippendorff_alpha", level="nominal", of="verdict").value == pytest.approx(
        0.4805302403
    )
    assert find_estimate(found_rows, "gwet_ac2", of="verdict", weights="quadratic").value == pytest.approx(0.8304335727)
