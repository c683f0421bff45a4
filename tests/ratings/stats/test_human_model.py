import pytest

from ratings.stats import human_model
from ratings.stats.pairwise import estimate_pair_means
from ratings.stats.ratings_table import RatingRecord, build_ratings_table

ITEMS = "123456"


def build_ratings(**raters: str):
    """Build ratings from text: one character per item for each rater, a dot if there is no verdict."""
    return build_ratings_table(
        RatingRecord(item, who, int(sign))
        for who, given in raters.items()
        for item, sign in zip(ITEMS * 20, given, strict=False)
        if sign != "."
    )


def repeat_ratings(times: int = 10, **raters: str):
    """Repeat the same verdicts on further items."""
    return build_ratings_table(
        RatingRecord(f"{n}-{at}", who, int(sign), source="a" if at < 3 else "b")
        for n in range(times)
        for who, given in raters.items()
        for at, sign in enumerate(given)
    )


def parse_verdicts(given: str) -> dict[str, int]:
    return {item: int(sign) for item, sign in zip(ITEMS, given, strict=False) if sign != "."}


def index_by_name(rows):
    return {row.name: row for row in rows}


TWO = {"a": "111000", "b": "110001"}


def test_model_comparison_equals_the_one_computed_shown_to_admin() -> None:
    rows = index_by_name(
        human_model.compare_models(build_ratings(**TWO), {"m": parse_verdicts("111001")}, min_overlap=1, resamples=0)
    )
    # a and b agree on 4 of 6, each says 1 half the time: pe 1/2, kappa (2/3 - 1/2)/(1/2) = 1/3.
    people = rows["raters with each other"]
    assert (people.agreement.value, people.kappa.value) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    # m agrees with a on 5 of 6 and with b on 5 of 6; m says 1 on 4: pe = 1/2 * 2/3 + 1/2 * 1/3 = 1/2, kappa 2/3 both times.
    assert rows["m"].agreement.value == pytest.approx(5 / 6)
    assert rows["m"].kappa.value == pytest.approx(2 / 3)
    # A rater's kappa with m less that with the other rater: 2/3 - 1/3 for both.
    assert rows["m"].difference.value == pytest.approx(1 / 3)
    assert rows["m"].kind == "machine" and people.kind == "people"
    assert rows["m"].kappa.n == {"items": 6, "raters": 2, "ratings": 12, "pairs_used": 2, "pairs_undefined": 0}
    assert rows["m"].kappa.reason == "a pair shares only 6 items; below 10 no interval of kappa is reliable"


def test_model_comparison_shows_people_the_mean_over_pairs_of_raters_on_the_same_items() -> None:
    own = repeat_ratings(**TWO, c="111111")
    people = human_model.compare_models(own, {}, resamples=20)[0]
    same = [row for row in estimate_pair_means(own, resamples=20) if row.args == {"min_overlap": 20}]
    assert people.kappa == next(row for row in same if row.stat == "avg_pairwise_kappa")


def test_leave_one_out_mean_gives_equal_weight_to_raters_and_not_to_pairs() -> None:
    # a-b share 4 items, agree on 4; a-c share 2, agree on 0; b-c share none.
    rows = index_by_name(
        human_model.compare_models(build_ratings(a="101010", b="1010..", c="....01"), {}, min_overlap=1, resamples=0)
    )
    # Pairs: (1 + 0)/2. Raters: a (1 + 0)/2, b 1, c 0: mean 1/2. Without b-c both agree; kappa: a-b 1, a-c -1.
    assert rows["raters with each other"].agreement.value == pytest.approx(1 / 2)
    assert rows["each rater with the others"].agreement.value == pytest.approx((0.5 + 1 + 0) / 3)
    assert rows["each rater with the others"].difference.value is None


def test_model_kappa_is_0_for_a_constant_model() -> None:
    row = index_by_name(
        human_model.compare_models(build_ratings(**TWO), {"m": parse_verdicts("111111")}, min_overlap=1, resamples=0)
    )["m"]
    assert row.kappa.value == 0
    assert row.difference.value == pytest.approx(-1 / 3)


def test_model_kappa_is_undefined_if_model_and_raters_are_constant() -> None:
    row = index_by_name(
        human_model.compare_models(
            build_ratings(a="111", b="111"), {"m": parse_verdicts("111")}, min_overlap=1, resamples=0
        )
    )["m"]
    assert row.agreement.value == 1 and row.kappa.value is None
    assert row.kappa.reason == "0/0 in every pair: both gave one and the same answer throughout"
    assert row.kappa.n["pairs_undefined"] == 2


def test_model_comparison_uses_items_with_two_raters_and_all_models() -> None:
    own = build_ratings(a="111000", b="11000.")
    models = {"m": parse_verdicts("11100."), "k": parse_verdicts(".11001")}
    # Item 1 was not judged by k; item 6 has one rater.
    assert human_model.find_common_items(own, models) == {"2", "3", "4", "5"}
    rows = human_model.compare_models(own, models, min_overlap=1, resamples=0)
    assert {row.kappa.n["items"] for row in rows} == {4}


def test_model_that_shares_few_items_with_raters_has_a_value_marked_as_few_items() -> None:
    few = "few items: no pair shares 20 items, the most is 6; no interval is reliable"
    same = human_model.compare_models(build_ratings(**TWO), {"m": parse_verdicts("111001")}, min_overlap=1, resamples=0)
    marked = human_model.compare_models(build_ratings(**TWO), {"m": parse_verdicts("111001")}, resamples=200)
    for one, other in zip(same, marked, strict=True):
        assert (one.agreement.value, one.kappa.value) == (other.agreement.value, other.kappa.value)
        assert one.kappa.value is not None
        assert (other.kappa.low, other.kappa.reason, other.agreement.low) == (None, few, None)
    assert index_by_name(marked)["m"].difference.low is None
    none = index_by_name(human_model.compare_models(build_ratings(**TWO), {"m": {"other": 1}}, resamples=0))
    assert none["m"].kappa.reason == "no item was judged by the model and rated by a person"


def test_model_intervals_resample_items_within_source_and_follow_the_seed() -> None:
    own = repeat_ratings(**TWO, c="101010")
    model = {"m": {f"{n}-{at}": int(sign) for n in range(10) for at, sign in enumerate("111001")}}
    first = human_model.compare_models(own, model, resamples=200, seed=4)
    row = index_by_name(first)["m"]
    assert row.kappa.method == row.difference.method == "item_bootstrap_corrected"
    assert row.agreement.method == "item_bootstrap"
    for found in (row.agreement, row.kappa, row.difference):
        assert found.low < found.value < found.high
    assert human_model.compare_models(own, model, resamples=200, seed=4) == first
    assert index_by_name(human_model.compare_models(own, model, resamples=200, seed=5))["m"].kappa != row.kappa


def test_a_rater_named_like_a_model_remains_a_person() -> None:
    rows = index_by_name(
        human_model.compare_models(
            build_ratings(m="111000", b="110001"), {"m": parse_verdicts("111001")}, min_overlap=1, resamples=0
        )
    )
    assert rows["m"].kappa.value == pytest.approx(2 / 3)


def test_majority_requires_more_than_half_of_the_votes_and_ties_are_counted() -> None:
    found = human_model.compute_majority(
        {"a": parse_verdicts("1100"), "b": parse_verdicts("1010"), "c": parse_verdicts("1...")}
    )
    # Items 2 and 3 have one vote each way, without c's.
    assert found.verdicts == {"1": 1, "2": 0, "3": 0, "4": 0} and found.ties == 2


def test_consensus_is_computed_only_for_items_that_all_models_judged() -> None:
    assert human_model.compute_consensus({"a": parse_verdicts("110."), "b": parse_verdicts("1010")}) == {
        "1": 1,
        "2": 0,
        "3": 0,
    }
    assert human_model.compute_consensus({}) == {}


def test_model_comparison_includes_ensembles() -> None:
    models = {"a": parse_verdicts("111000"), "b": parse_verdicts("110000")}
    rows = index_by_name(
        human_model.compare_models(build_ratings(**TWO), models, min_overlap=1, resamples=0, kinds={"a": "classifier"})
    )
    assert [(row.name, row.kind) for row in rows.values()][2:] == [
        ("a", "classifier"), ("b", "machine"), ("majority of the models", "ensemble"), ("all models", "ensemble"),
    ]  # fmt: skip


def test_conditional_agreement_is_asymmetric_and_undefined_for_a_model_that_never_says_yes() -> None:
    models = {"a": parse_verdicts("1110"), "b": parse_verdicts("1000"), "z": parse_verdicts("0000")}
    cells = {(cell.row, cell.col): cell for cell in human_model.build_conditional_matrix(models)}
    # Of a's three 1s b says 1 to one; of b's one, a to one.
    assert cells["a", "b"].value == pytest.approx(1 / 3) and cells["a", "b"].base == 3
    assert cells["b", "a"].value == 1 and cells["a", "a"].value == 1
    assert cells["z", "a"].value is None and cells["z", "a"].base == 0
    same = {(cell.row, cell.col): cell.value for cell in human_model.build_agreement_matrix(models)}
    assert same["a", "b"] == same["b", "a"] == 1 / 2 and same["z", "b"] == 3 / 4


def test_share_of_yes_of_a_model_counts_only_the_items_it_judged() -> None:
    found = human_model.estimate_fractions({"a": parse_verdicts("11.0"), "none": {}})
    assert (found["a"].k, found["a"].n, found["a"].value) == (2, 3, pytest.approx(2 / 3))
    # Wilson 1927 for 2 of 3, z = 1.96: centre (2/3 + 3.8415/6)/(1 + 3.8415/3) = 0.5731, half 0.3654.
    assert (found["a"].low, found["a"].high) == (pytest.approx(0.2077, abs=1e-4), pytest.approx(0.9385, abs=1e-4))
    assert found["none"].value is None


def test_rater_verdicts_are_collected_so_that_raters_can_be_rows_of_the_matrices() -> None:
    assert human_model.collect_rater_verdicts(build_ratings(a="10", b=".1")) == {"a": {"1": 1, "2": 0}, "b": {"2": 1}}


def test_model_comparison_refuses_verdicts_of_more_than_two_categories() -> None:
    with pytest.raises(ValueError, match="1 and 0"):
        human_model.compare_models(build_ratings_table([RatingRecord("1", "a", "x")], ("x", "y")), {})
