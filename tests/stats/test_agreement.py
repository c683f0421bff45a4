import pytest

from ratings.stats.agreement import Answer, cohen, pairwise, with_model


def answers(**verdicts: str) -> list[Answer]:
    """Raters by name, verdicts as 1 and 0 per item in order, a dot where there is none."""
    return [
        Answer(f"item{index:02}", rater, mark == "1")
        for rater, marks in verdicts.items()
        for index, mark in enumerate(marks)
        if mark != "."
    ]


def test_kappa_of_two_raters_who_agree_on_four_of_six() -> None:
    # po = 4/6; each says yes 3 of 6: pe = 1/4 + 1/4 = 1/2; kappa = (2/3 - 1/2) / (1/2) = 1/3
    pairs = [(True, True), (True, True), (True, False), (False, False), (False, False), (False, True)]
    assert cohen(pairs).value == pytest.approx(1 / 3)
    assert cohen(pairs).observed == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("a", "b", "c", "d", "kappa"),
    [
        # 30 items, both yes a, first only b, second only c, both no d. Agreement is 93.3 % in all but the first two.
        (27, 0, 0, 3, 1.0),
        # po = 29/30; yes shares 28/30 and 27/30: pe = (28*27 + 2*3) / 900 = 762/900; (870-762)/(900-762) = 108/138
        (27, 1, 0, 2, 108 / 138),
        # po = 28/30; both 27/30: pe = (729+9)/900 = 738/900; (840-738)/(900-738) = 102/162
        (26, 1, 1, 2, 102 / 162),
        # both 28/30: pe = (784+4)/900; (840-788)/(900-788) = 52/112
        (27, 1, 1, 1, 52 / 112),
        # both 29/30: pe = (841+1)/900; (840-842)/(900-842) = -2/58
        (28, 1, 1, 0, -2 / 58),
    ],
)
def test_kappa_is_fragile_where_nearly_all_say_yes(a: int, b: int, c: int, d: int, kappa: float) -> None:
    pairs = [(True, True)] * a + [(True, False)] * b + [(False, True)] * c + [(False, False)] * d
    assert cohen(pairs).value == pytest.approx(kappa)


def test_one_answer_throughout_from_both_leaves_kappa_undefined_and_agreement_whole() -> None:
    kappa = cohen([(True, True)] * 5)
    assert (kappa.value, kappa.observed, kappa.n) == (None, 1.0, 5)
    assert "0/0" in kappa.reason


def test_one_constant_rater_has_kappa_zero() -> None:
    # po = 1/2; the first always yes, the second half: pe = 1 * 1/2 = po, so kappa = 0
    assert cohen([(True, True), (True, False)]).value == 0


def test_constant_raters_on_opposite_sides_have_kappa_zero() -> None:
    # po = 0 and pe = 1*0 + 0*1 = 0
    assert cohen([(True, False)] * 4).value == 0


def test_without_a_common_item_nothing_is_defined() -> None:
    assert cohen([]) == (None, None, 0, "no item was rated by both")


def test_kappa_of_the_textbook_table_of_two_readers() -> None:
    # Wikipedia, "Cohen's kappa", simple example (read 2026): 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: 0.4.
    # po = 35/50 = 0.7; pe = 0.5*0.6 + 0.5*0.4 = 0.5; (0.7-0.5)/0.5 = 0.4
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohen(pairs).value == pytest.approx(0.4)


def test_the_mean_over_pairs_leaves_out_what_is_short_or_undefined_and_counts_it() -> None:
    rated = answers(
        a="111000",
        b="110001",
        c="1111..",  # with a: 1110 -> po 3/4, c constant: kappa 0; with b: po 2/4, kappa 0
        d="....11",  # two items in common with a and b, none with c
    )
    found = pairwise(rated, min_overlap=4)
    # a-b: items 0, 1, 3, 4 agree: po = 4/6, both half yes, pe = 1/2: 1/3. a-c and b-c: 0. Mean (1/3 + 0 + 0)/3 = 1/9.
    assert found.value == pytest.approx(1 / 9)
    # Agreement (4/6 + 3/4 + 2/4) / 3 = 23/36
    assert found.observed == pytest.approx(23 / 36)
    assert (found.pairs_used, found.pairs_undefined, found.pairs_below_overlap) == (3, 0, 3)
    assert (found.n_items, found.n_raters, found.n_ratings) == (6, 4, 18)


def test_agreement_includes_pairs_whose_kappa_is_undefined() -> None:
    found = pairwise(answers(a="1111", b="1111", c="1100"), min_overlap=4)
    # a-b 0/0 with agreement 1; a-c and b-c: one constant rater, kappa 0, agreement 1/2. (1 + 1/2 + 1/2)/3 = 2/3
    assert found.value == 0
    assert found.observed == pytest.approx(2 / 3)
    assert (found.pairs_used, found.pairs_undefined) == (2, 1)


@pytest.mark.parametrize(
    ("rated", "reason"),
    [
        (answers(), "fewer than two raters"),
        (answers(a="10"), "fewer than two raters"),
        (answers(a="10101", b="10101"), "no pair of raters has 20 items in common; the most is 5"),
        (answers(a="1" * 20, b="1" * 20), "0/0 in every pair"),
    ],
)
def test_an_undefined_mean_says_why(rated: list[Answer], reason: str) -> None:
    found = pairwise(rated)
    assert found.value is None
    assert reason in found.reason


def test_nineteen_common_items_are_too_few_and_twenty_enough() -> None:
    assert pairwise(answers(a="10" * 9 + "1", b="10" * 9 + "0")).value is None
    assert pairwise(answers(a="10" * 10, b="10" * 10)).value == 1


def test_two_answers_of_one_rater_to_one_item_are_refused() -> None:
    with pytest.raises(ValueError, match="rater a answered item item00 more than once"):
        pairwise([*answers(a="1"), *answers(a="0")])


def test_a_model_is_compared_on_the_items_each_rater_rated() -> None:
    model = {f"item{index:02}": mark == "1" for index, mark in enumerate("111000")}
    found = with_model(answers(a="110001", b="1110..", c="11...."), model, min_overlap=4)
    # a: 1/3 as above. b against 1110 (model 1110): identical, kappa 1. c has 2 items only.
    assert found.value == pytest.approx((1 / 3 + 1) / 2)
    assert found.observed == pytest.approx((4 / 6 + 1) / 2)
    assert (found.raters_used, found.raters_below_overlap, found.n_items, found.n_ratings) == (2, 1, 6, 12)


def test_items_the_model_did_not_judge_are_left_out() -> None:
    found = with_model(answers(a="1010"), {"item00": True, "item01": False}, min_overlap=2)
    assert (found.value, found.n_items) == (1, 2)


@pytest.mark.parametrize(
    ("marks", "model", "reason"),
    [
        ("10", {}, "no item was judged"),
        ("10", {"item00": True}, "no rater has 20"),
        ("1" * 20, None, "0/0 for every rater"),
    ],
)
def test_an_undefined_comparison_with_a_model_says_why(marks: str, model: dict[str, bool] | None, reason: str) -> None:
    given = {f"item{index:02}": True for index in range(20)} if model is None else model
    found = with_model(answers(a=marks), given)
    assert found.value is None
    assert reason in found.reason
