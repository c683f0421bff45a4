"""Agreement coefficients against published worked examples. Each says what was read, and where (2026).

"Code index" is the stored index of public repositories: the test suite or documentation there gives data and value together.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ratings.stats import Estimate
from ratings.stats.coefficients import build_gwet_ac2, estimate_coefficients
from ratings.stats.coefficients import compute_coefficient as coefficient_of
from ratings.stats.pairwise import estimate_pair_means, estimate_pairs
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table


def build_from_counts(counts: Sequence[Sequence[int]]) -> Ratings:
    """Build ratings from one row per item: how many raters chose each category. Raters are assigned to them in the order of categories."""
    given = [[at for at, n in enumerate(row) for _ in range(n)] for row in counts]
    rows = [RatingRecord(f"{i:03}", f"r{j}", value) for i, row in enumerate(given) for j, value in enumerate(row)]
    return build_ratings_table(rows, categories=range(len(counts[0])))


def build_from_table(cells: Sequence[Sequence[int]]) -> Ratings:
    """Build the ratings of two raters from a table: first rater in rows, second in columns."""
    both = [(a, b) for a, row in enumerate(cells) for b, n in enumerate(row) for _ in range(n)]
    rows = [
        RatingRecord(f"{i:05}", rater, value)
        for i, two in enumerate(both)
        for rater, value in zip("ab", two, strict=True)
    ]
    return build_ratings_table(rows, categories=range(len(cells)))


def build_from_raters(*lines: str, categories: Sequence[Any]) -> Ratings:
    """Build ratings from one line per rater with one character per item, a dot if there is no rating."""
    rows = [
        RatingRecord(f"{i:02}", f"r{j}", int(mark))
        for j, line in enumerate(lines)
        for i, mark in enumerate(line)
        if mark != "."
    ]
    return build_ratings_table(rows, categories=categories)


def find_value(rows: Sequence[Estimate], stat: str, **args: Any) -> float:
    """The value of the main row with these args among its own."""
    found = [row for row in rows if row.stat == stat and "target" not in row.args and args.items() <= row.args.items()]
    assert len(found) == 1
    assert found[0].value is not None
    return found[0].value


def compute_kappa(table: Ratings) -> float:
    return find_value(estimate_pairs(table), "cohen_kappa")


def test_kappa_of_cohens_table_of_two_psychologists_equals_the_published_one() -> None:
    # Cohen 1960, Educational and Psychological Measurement 20:37-46, table of 200 cases in three categories: 0.492
    # (code index, an R test suite). po = 140/200 = .7; pe = (120*100 + 60*60 + 20*40)/200^2 = 16400/40000 = .41;
    # (.7 - .41)/.59 = .4915
    found = build_from_table([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert compute_kappa(found) == pytest.approx(0.492, abs=5e-4)


def test_kappa_differs_at_equal_agreement_as_published_by_feinstein_and_cicchetti() -> None:
    # Feinstein and Cicchetti 1990, J Clin Epidemiol 43:543-549, as table 10.6 of Gerstman, Epidemiology Kept Simple,
    # p. 227 prints it: agreement .85 in both, kappa .70 and .32.
    even, skewed = build_from_table([[40, 9], [6, 45]]), build_from_table([[80, 10], [5, 5]])
    for table, published in ((even, 0.70), (skewed, 0.32)):
        rows = estimate_pair_means(table, 1, resamples=0)
        assert find_value(rows, "avg_pairwise_agreement") == pytest.approx(0.85)
        assert find_value(rows, "avg_pairwise_kappa") == pytest.approx(published, abs=5e-3)
        # PABAK is 2 * .85 - 1 in both.
        assert find_value(estimate_coefficients(table, resamples=0), "brennan_prediger") == pytest.approx(0.70)
    # The most kappa could be in the second: rows 90 and 10, columns 85 and 15: (85 + 10)/100 = .95 and pe = .78:
    # (.95 - .78)/.22 = .7727
    assert find_value(estimate_pair_means(skewed, 1, resamples=0), "kappa_max") == pytest.approx(0.17 / 0.22)


def test_kappa_of_radiographs_read_twice_equals_the_one_published_by_gerstman() -> None:
    # Gerstman, Epidemiology Kept Simple, example 10.1, p. 227: 1467 and 16232 of 19790 agreed, positives 2249 and 2776:
    # agreement .8943, by chance .7780, kappa .524
    found = build_from_table([[1467, 2249 - 1467], [2776 - 1467, 16232]])
    assert find_value(estimate_pairs(found), "percent_agreement") == pytest.approx(0.8943, abs=5e-5)
    assert compute_kappa(found) == pytest.approx(0.524, abs=5e-4)


@pytest.mark.parametrize(
    ("cells", "published"),
    [
        ([[22, 2], [4, 11]], 0.67),  # table 1, relevance of lateral shift
        ([[15, 3, 1, 1], [4, 18, 3, 2], [4, 5, 16, 4], [1, 2, 4, 17]], 0.55),  # table 2, pain in four degrees
        ([[22, 10, 2], [6, 27, 11], [2, 5, 17]], 0.46),  # table 3, syndromes
    ],
)
def test_kappa_of_the_tables_of_sim_and_wright_equals_the_published_ones(
    cells: list[list[int]], published: float
) -> None:
    # Sim and Wright 2005, Physical Therapy 85:257-268 (code index, an R test suite quoting the tables)
    assert compute_kappa(build_from_table(cells)) == pytest.approx(published, abs=5e-3)


def test_kappa_and_ac1_of_wongpakarans_personality_data_equal_the_published_ones() -> None:
    # Wongpakaran et al. 2013, BMC Med Res Methodol 13:61: kappa .565, AC1 .752 (code index, an R test suite, which notes
    # that the paper cuts .7527). Yes 5 and 4 of 19: pa = 16/19 = 1216/1444, pi = 9/38, pe = 2 pi (1 - pi) = 522/1444;
    # (1216 - 522)/(1444 - 522) = 694/922
    found = build_from_table([[13, 2], [1, 3]])
    assert compute_kappa(found) == pytest.approx(0.565, abs=5e-4)
    assert find_value(estimate_coefficients(found, resamples=0), "gwet_ac1") == pytest.approx(694 / 922)


FLEISS = [
    (0, 0, 0, 6, 0), (0, 3, 0, 0, 3), (0, 1, 4, 0, 1), (0, 0, 0, 0, 6), (0, 3, 0, 3, 0), (2, 0, 4, 0, 0), (0, 0, 4, 0, 2),
    (2, 0, 3, 1, 0), (2, 0, 0, 4, 0), (0, 0, 0, 0, 6), (1, 0, 0, 5, 0), (1, 1, 0, 4, 0), (0, 3, 3, 0, 0), (1, 0, 0, 5, 0),
    (0, 2, 0, 3, 1), (0, 0, 5, 0, 1), (3, 0, 0, 1, 2), (5, 1, 0, 0, 0), (0, 2, 0, 4, 0), (1, 0, 2, 0, 3), (0, 0, 0, 0, 6),
    (0, 1, 0, 5, 0), (0, 2, 0, 1, 3), (2, 0, 0, 4, 0), (1, 0, 0, 4, 1), (0, 5, 0, 1, 0), (4, 0, 0, 0, 2), (0, 2, 0, 4, 0),
    (1, 0, 5, 0, 0), (0, 0, 0, 0, 6),
]  # fmt: skip


def test_fleiss_kappa_of_thirty_psychiatric_patients_equals_the_published_one() -> None:
    # Fleiss 1971, Psychological Bulletin 76:378-382: 30 patients, 6 diagnoses each, kappa .430 (code index).
    assert find_value(estimate_coefficients(build_from_counts(FLEISS), resamples=0), "fleiss_kappa") == pytest.approx(
        0.430, abs=5e-4
    )


def test_lights_kappa_of_thirty_psychiatric_patients_equals_the_published_one() -> None:
    # R package irr, help of kappam.light (rdrr.io/pkg/irr/man/kappam.light.html): 30 subjects, 6 raters, kappa 0.459.
    # Its `diagnoses` are Fleiss's, raters in the order of the categories; the mean is over 15 pairs.
    rows = estimate_pair_means(build_from_counts(FLEISS), resamples=0)
    assert find_value(rows, "avg_pairwise_kappa", min_overlap=20) == pytest.approx(0.459, abs=5e-4)
    assert next(row for row in rows if row.stat == "avg_pairwise_kappa").n["pairs_used"] == 15


def test_coefficients_of_fifteen_psychiatric_patients_equal_those_published_by_gwet() -> None:
    # Gwet, README of R package irrCAC, distrib.6raters: AC1 .4448007, Fleiss .4139265, alpha .4204384, BP .4388889
    rows = estimate_coefficients(build_from_counts(FLEISS[:15]), resamples=0)
    assert find_value(rows, "gwet_ac1") == pytest.approx(0.4448007, abs=5e-8)
    assert find_value(rows, "fleiss_kappa") == pytest.approx(0.4139265, abs=5e-8)
    assert find_value(rows, "krippendorff_alpha", level="nominal") == pytest.approx(0.4204384, abs=5e-8)
    assert find_value(rows, "brennan_prediger") == pytest.approx(0.4388889, abs=5e-8)


def test_fleiss_kappa_of_fourteen_raters_equals_the_published_one() -> None:
    # The worked example of Wikipedia's "Fleiss' kappa", as two test suites of the code index quote it: agreement .378, by
    # chance .213, kappa .210
    counts = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    rows = estimate_coefficients(build_from_counts(counts), resamples=0)
    assert find_value(rows, "fleiss_kappa") == pytest.approx(0.210, abs=5e-4)
    # With five categories BP = (pa - 1/5)/(4/5), so pa is to be found again from it.
    assert 0.2 + 0.8 * find_value(rows, "brennan_prediger") == pytest.approx(0.378, abs=5e-4)


def test_alpha_of_krippendorffs_four_observers_equals_the_published_one() -> None:
    # Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, example C (and Content Analysis, 4th ed. 2019): four
    # observers, twelve units, nominal .743, ordinal .815 (code index). The ordinal one is asked of the confidence column.
    lines = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    nominal = build_from_raters(*lines, categories=range(1, 6))
    assert find_value(
        estimate_coefficients(nominal, resamples=0), "krippendorff_alpha", level="nominal"
    ) == pytest.approx(0.743, abs=5e-4)
    scale = build_ratings_table([row._replace(confidence=row.verdict, verdict=1) for row in nominal.to_records()])
    rows = estimate_coefficients(scale, resamples=0)
    assert find_value(rows, "krippendorff_alpha", of="confidence", level="ordinal") == pytest.approx(0.815, abs=5e-4)
    # All verdicts are 1 here, so the signed rating is the confidence, on ten declared levels instead of five.
    assert find_value(rows, "krippendorff_alpha", of="signed", level="ordinal") == pytest.approx(0.815, abs=5e-4)


@pytest.mark.parametrize(("level", "published"), [("interval", 0.849), ("ratio", 0.797)])
def test_alpha_of_krippendorffs_four_observers_as_numbers_equals_the_published_one(
    level: str, published: float
) -> None:
    # The same example: interval .849, ratio .797 (Krippendorff 2011, example C; Content Analysis, 3rd ed. 2013, chapter 12).
    lines = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
    rows = estimate_coefficients(build_from_raters(*lines, categories=range(1, 6)), resamples=0)
    assert find_value(rows, "krippendorff_alpha", level=level) == pytest.approx(published, abs=5e-4)


def test_interval_alpha_of_gwets_five_observers_equals_that_of_two_other_programs() -> None:
    # irrCAC's cac.raw5obser, first 15 subjects: .77186480877557 by R irr 0.84.1 and by krippendorff 0.9.0.
    lines = ("".join(marks) for marks in zip(*GWET_FIVE.split()[:15], strict=True))
    rows = estimate_coefficients(build_from_raters(*lines, categories=range(4)), resamples=0)
    assert find_value(rows, "krippendorff_alpha", level="interval") == pytest.approx(0.7718648087755707)


def test_ratio_alpha_of_two_raters_counts_two_zeros_as_equal() -> None:
    # Two items, 0 and 0, 1 and 2. Observed: one pair each way of distance (1/3)^2, over n = 4 values: 2/9/4.
    # By chance, of 12 ordered pairs of the values 0, 0, 1, 2: 0 with 1 or 2 has distance 1 (8 pairs), 1 with 2 has 1/9 (2).
    # alpha = 1 - (2/9/4) / ((8 + 2/9)/12) = 1 - 6/74
    rows = estimate_coefficients(build_from_raters("01", "02", categories=range(3)), resamples=0)
    assert find_value(rows, "krippendorff_alpha", level="ratio") == pytest.approx(1 - 6 / 74)


def test_alpha_of_krippendorffs_three_observers_equals_the_published_one() -> None:
    # Three coders, fifteen units, nominal .691358: two test suites of the code index, one of which calls it the running
    # example of Krippendorff's Content Analysis.
    # Pairable values n = 26: 7, 4, 10 and 5 of 1 to 4. Observed disagreement 6/26 (units 6, 8, 15), by chance
    # (26^2 - 49 - 16 - 100 - 25)/(26 * 25) = 486/650; 1 - (6/26)/(486/650)
    found = build_from_raters(".....34121133.3", "1.213343.......", "..21344.21133.4", categories=range(1, 5))
    expected = 1 - (6 / 26) / (486 / 650)
    assert find_value(
        estimate_coefficients(found, resamples=0), "krippendorff_alpha", level="nominal"
    ) == pytest.approx(expected)


def test_coefficients_of_gwets_four_raters_with_missing_ratings_equal_the_published_ones() -> None:
    # Gwet 2014, Handbook of Inter-Rater Reliability, 4th ed., p. 120; values as the author's irrCAC README prints them:
    # AC1 .77544, Fleiss .76117, alpha .74342, Brennan-Prediger .77273. One unit has a single rating.
    lines = ("123321412...", "1233224125..", ".33323422513", "12332441251.")
    rows = estimate_coefficients(build_from_raters(*lines, categories=range(1, 6)), resamples=0)
    assert find_value(rows, "gwet_ac1") == pytest.approx(0.77544, abs=5e-6)
    assert find_value(rows, "fleiss_kappa") == pytest.approx(0.76117, abs=5e-6)
    assert find_value(rows, "krippendorff_alpha", level="nominal") == pytest.approx(0.74342, abs=5e-6)
    assert find_value(rows, "brennan_prediger") == pytest.approx(0.77273, abs=5e-6)


GWET_FIVE = "112.2 1101. 2333. .00.0 000.0 000.0 102.1 1.20. 222.2 2111. .100. 0000. 1222. 33223 111.1 111.1 212.2 1233. 1101. 000.0"


def test_coefficients_of_gwets_five_raters_with_missing_ratings_equal_the_published_ones() -> None:
    # Gwet 2021, Handbook of Inter-Rater Reliability, 5th ed., p. 165: AC1 .5021, AC2 with quadratic weights .8224 (code
    # index, an R test suite)
    lines = ("".join(marks) for marks in zip(*GWET_FIVE.split(), strict=True))
    found = build_from_raters(*lines, categories=range(4))
    assert find_value(estimate_coefficients(found, resamples=0), "gwet_ac1") == pytest.approx(0.5021, abs=5e-5)
    counts = np.array([[list(marks).count(str(at)) for at in range(4)] for marks in GWET_FIVE.split()], dtype=float)
    assert coefficient_of(build_gwet_ac2("confidence", 4, "quadratic"), counts) == pytest.approx(0.8224, abs=5e-5)


def test_coefficients_of_gwets_two_abstractors_equal_the_published_ones() -> None:
    # Gwet, README of irrCAC, cont3x3abstractors: kappa .7964094, AC1 .8493305, BP .835, alpha .7972585, agreement .89
    found = build_from_table([[13, 0, 0], [0, 20, 7], [0, 4, 56]])
    rows = estimate_coefficients(found, resamples=0)
    assert find_value(estimate_pairs(found), "percent_agreement") == pytest.approx(0.89)
    assert compute_kappa(found) == pytest.approx(0.7964094, abs=5e-8)
    assert find_value(rows, "gwet_ac1") == pytest.approx(0.8493305, abs=5e-8)
    assert find_value(rows, "brennan_prediger") == pytest.approx(0.835)
    assert find_value(rows, "krippendorff_alpha", level="nominal") == pytest.approx(0.7972585, abs=5e-8)
