import numpy as np
import pytest

from ratings.stats import dawid_skene
from ratings.stats.ratings_table import RatingRecord, build_ratings_table

# Dawid and Skene 1979, JRSS C 28:20-28, Table 1: 45 patients; observer 1's three ratings, then those of observers 2 to 5.
ANAESTHETISTS = """
1111111 3334334 1122122 2223121 2223222 2223322 1122111 3333433 2222223 2322223 4444444 2223343 1111111 2223212 1211111
1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222 1111111 1111111 2322222 1111111 1111111 1121121
1111111 3333233 1111111 2222222 2223232 4334343 2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""
OBSERVERS = "1112345"


def fit_anaesthetists(backwards: bool = False, **how: int) -> dawid_skene.DawidSkeneFit:
    patients = ANAESTHETISTS.split()
    answers = [
        (n, int(o) - 1, int(x) - 1) for n, given in enumerate(patients) for o, x in zip(OBSERVERS, given, strict=True)
    ]
    item, rater, verdict = np.array(answers[::-1] if backwards else answers).T
    names = tuple(str(n + 1) for n in range(45)), tuple("12345"), (1, 2, 3, 4)
    return dawid_skene.fit_model(*names, item, rater, verdict, **how)


def test_prevalences_in_the_ratings_of_five_anaesthetists_equal_the_published_ones() -> None:
    found = fit_anaesthetists()
    # Dawid and Skene 1979 print .40, .42, .11, .07 for the four classes.
    assert found.prevalence == pytest.approx([0.40, 0.42, 0.11, 0.07], abs=0.005)
    assert found.answers == 45 * 7 and found.converged
    # Computed with crowd-kit 1.4.2, not published.
    assert found.prevalence == pytest.approx([0.400077, 0.422060, 0.111196, 0.066667], abs=1e-3)


def test_fit_from_another_start_that_is_hardly_more_likely_is_mentioned_but_not_used() -> None:
    found = fit_anaesthetists(seed=0)
    assert 0 < found.best_other < dawid_skene.MIN_GAIN
    assert "another start ended at a different optimum" in found.description and dawid_skene.LABEL in found.description
    assert fit_anaesthetists(restarts=0).best_other == 0


def test_fit_from_another_start_that_is_clearly_more_likely_is_used_and_mentioned() -> None:
    # Two raters always say one thing, three say another and slip once in ten items: the majority is the less likely truth.
    def says(item: int, rater: int) -> int:
        return item // 2 % 2 if rater > 2 else item % 2 ^ (item // 4 % 10 == rater)

    rows = [RatingRecord(f"i{item}", f"R{rater}", says(item, rater)) for item in range(80) for rater in range(5)]
    found = dawid_skene.fit_table(build_ratings_table(rows))
    assert found.gain > dawid_skene.MIN_GAIN and found.best_other == 0
    assert "from a random start" in found.description and found.description.endswith("interpret with care")
    assert dawid_skene.fit_table(build_ratings_table(rows), restarts=0).description == dawid_skene.LABEL


def test_error_probabilities_of_a_class_add_up_to_1() -> None:
    found = fit_anaesthetists()
    assert found.errors.shape == (5, 4, 4)
    assert np.nansum(found.errors, axis=2) == pytest.approx(np.ones((5, 4)))
    assert found.truth.sum(axis=1) == pytest.approx(np.ones(45))


def test_fit_recovers_the_errors_of_simulated_raters() -> None:
    rng = np.random.default_rng(3)
    truth = rng.random(1500) < 0.7
    right = np.array([0.95, 0.9, 0.8, 0.7, 0.9, 0.6])
    rows = [
        RatingRecord(f"i{i}", f"R{j}", int(truth[i] if rng.random() < right[j] else not truth[i]))
        for i in range(1500)
        for j in range(6)
    ]
    found = dawid_skene.fit_table(build_ratings_table(rows))
    assert found.prevalence[1] == pytest.approx(0.7, abs=0.03)
    assert np.diagonal(found.errors, axis1=1, axis2=2).mean(axis=1) == pytest.approx(right, abs=0.04)


def test_fit_of_raters_in_full_agreement_has_no_errors() -> None:
    rows = [RatingRecord(str(i), who, int(i < 3)) for i in range(4) for who in "abc"]
    found = dawid_skene.fit_table(build_ratings_table(rows))
    # 3 of 4 items are 1, and nobody ever errs.
    assert found.prevalence == pytest.approx([0.25, 0.75])
    assert found.errors == pytest.approx(np.array([np.eye(2)] * 3))


def test_error_probabilities_are_undefined_for_a_class_of_which_the_rater_saw_no_item() -> None:
    rows = [RatingRecord(str(i), who, int(i < 3)) for i in range(6) for who in "abc"]
    rows += [RatingRecord(str(i), "d", 1) for i in range(3)]
    errors = [
        row for row in dawid_skene.estimate_latent_truth(build_ratings_table(rows)) if row.args.get("rater") == "d"
    ]
    undefined = {row.args["truth"]: (row.value, row.reason) for row in errors if row.args["verdict"] == 1}
    assert undefined[0] == (None, "the rater met no item of this class")
    assert undefined[1][0] == pytest.approx(1)


def test_latent_truth_estimates_are_labelled() -> None:
    rows = [RatingRecord(str(i), who, int(i < 3)) for i in range(6) for who in "abc"]
    shares = [
        row
        for row in dawid_skene.estimate_latent_truth(build_ratings_table(rows))
        if row.stat == "dawid_skene_prevalence"
    ]
    assert [row.method for row in shares] == ["estimate", "estimate"]
    assert {row.reason for row in shares} == {"an estimate of the Dawid-Skene model, not a count"}


def test_latent_truth_is_undefined_for_two_raters_or_a_known_reference() -> None:
    two = build_ratings_table([RatingRecord(str(i), who, i % 2) for i in range(4) for who in "ab"])
    known = build_ratings_table([RatingRecord(str(i), who, i % 2, reference=1) for i in range(4) for who in "abc"])
    assert dawid_skene.estimate_latent_truth(two)[0].reason == "a latent truth needs at least 3 raters; there are 2"
    assert (
        dawid_skene.estimate_latent_truth(known)[0].reason == "items have a known reference; nothing needs estimating"
    )
    with pytest.raises(ValueError, match="3 raters"):
        dawid_skene.fit_table(two)


def test_fit_is_independent_of_the_order_of_answers() -> None:
    one, two = fit_anaesthetists(), fit_anaesthetists(backwards=True)
    assert one.prevalence.tolist() == two.prevalence.tolist() and one.items == two.items
