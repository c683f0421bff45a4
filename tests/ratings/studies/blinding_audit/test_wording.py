"""The classifier of style: its statistics by hand, its results on held-out pairs, and its power."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from ratings.blinding import payload_digest
from ratings.exchange.archive import study_facts
from ratings.models import BlindingAudit, Item, ItemSource, Quarantine, Study
from ratings.protocol.reference import find_reference
from ratings.stats.planning.precision import compute_auc_variance
from ratings.studies.blinding_audit import audit_runner, stored_items, style_tests, text_classifier
from ratings.studies.blinding_audit.stored_items import collect_sealed_values
from ratings.studies.blinding_audit.text_classifier import Example
from tests.support.audit_studies import open_study_to_audit


def test_style_preserves_function_words_and_signs_and_masks_numbers_and_content() -> None:
    assert style_tests.reduce_to_style("The tube is CLEAR, 12.5 mL.") == "The w4 is W5 , 0 wW2 ."
    assert style_tests.reduce_to_style("The tube is CLEAR, -7 mL.") == style_tests.reduce_to_style(
        "The well is BLACK, 12.5 mL."
    )


def test_auc_within_strata_equals_the_one_computed_shown_to_admin() -> None:
    # Stratum a: 3 above 1 and 2 below 3 of (2 | 1, 3): one of two won. Stratum b: 5 above 4: one of one. (1 + 1) / 3.
    np = text_classifier.np
    scores, kinds = np.array([2.0, 1.0, 3.0, 5.0, 4.0]), np.array([1, 0, 0, 1, 0])
    strata = np.array([0, 0, 0, 1, 1])
    assert text_classifier.compute_auc(scores, kinds, strata, np.ones(5)) == pytest.approx(2 / 3)
    # With the second item twice: of the three comparisons in a, two are won. (2 + 1) / 4.
    assert text_classifier.compute_auc(scores, kinds, strata, np.array([1, 2, 1, 1, 1])) == pytest.approx(3 / 4)


def test_standard_error_of_hanley_and_mcneil_equals_the_one_computed_shown_to_admin() -> None:
    # A = 0.8, 20 of each: Q1 = 0.8/1.2 = 0.66667, Q2 = 1.28/1.8 = 0.71111; Q1 - A2 = 0.02667, Q2 - A2 = 0.07111;
    # (0.16 + 19 * 0.02667 + 19 * 0.07111) / 400 = 2.01778 / 400 = 0.0050444, whose root is 0.071024.
    assert math.sqrt(compute_auc_variance(0.8, 20, 20)) == pytest.approx(0.071024, abs=1e-6)


def test_smallest_detectable_auc_is_2_8_standard_errors_above_its_margin() -> None:
    smallest = text_classifier.compute_smallest_auc(50, 50, 0.6)
    assert smallest is not None
    assert smallest - 0.6 == pytest.approx(2.801585 * math.sqrt(compute_auc_variance(smallest, 50, 50)), abs=1e-6)
    more = text_classifier.compute_smallest_auc(500, 500, 0.6)
    assert more is not None and more < smallest
    assert text_classifier.compute_smallest_auc(1, 9, 0.6) is None
    n = text_classifier.count_needed_items(0.75, 0.6)
    assert (
        (text_classifier.compute_smallest_auc(n, n, 0.6) or 1)
        <= 0.75
        < (text_classifier.compute_smallest_auc(n - 1, n - 1, 0.6) or 1)
    )


def _examples(seed: int, told: float) -> list[Example]:
    """Forty pairs of an original and its twin in two actions; with probability `told` a twin ends with a semicolon."""
    rng = random.Random(seed)
    rows = []
    for pair in range(40):
        text = " ".join(rng.choice(["w4", "W5", "the", "is", ",", "0", "w7"]) for _ in range(30))
        for kind in (0, 1):
            mark = " ; ;" if kind and rng.random() < told else ""
            rows.append(Example(f"{text}{mark} w{rng.randint(2, 9)}", kind, pair, "ab"[pair % 2]))
    return rows


def test_classifier_recognises_twins_by_a_style_only_if_they_have_one() -> None:
    told = text_classifier.evaluate_classifier(_examples(1, 0.9), 5)
    assert told.is_above(0.6) and told.n == (40, 40) and told.pairs == 40
    nothing = text_classifier.evaluate_classifier(_examples(2, 0.0), 5)
    assert not nothing.is_above(0.5)


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    """Three hundred sentences of an earlier handbook of ours: prose with hundreds of different pieces and two in a row."""
    return (Path(__file__).parent / "prose.txt").read_text().splitlines()


def _prose(sentences: list[str], seed: int, tell: Callable[[str], str], of_one: bool) -> list[Example]:
    """Forty pairs of eight sentences; a twin has a tell in one of them. The content is that of its original, or another."""
    rng = random.Random(seed)
    rows = []
    for pair in range(40):
        text = rng.sample(sentences, 8)
        for kind in (0, 1):
            own = list(text) if of_one else rng.sample(sentences, 8)
            own[rng.randrange(8)] = rng.choice(sentences)
            at = rng.randrange(8)
            own[at] = tell(own[at]) if kind else own[at]
            rows.append(Example(style_tests.reduce_to_style(" ".join(own)), kind, pair, "ab"[pair % 2]))
    return rows


TELLS: dict[str, Callable[[str], str]] = {
    "however": lambda text: f"However, {text[0].lower()}{text[1:]}",
    "dashes": lambda text: f"{text} --",
    "exclamation": lambda text: text.rstrip(".") + "!",
    "two in a row": lambda text: f"{text} The, of it.",  # none of its pieces is rare, the comma after the article is
}


@pytest.mark.parametrize("tell", TELLS)
@pytest.mark.parametrize("of_one", [True, False], ids=["content of the original", "content of its own"])
def test_classifier_finds_a_perfect_tell_in_prose_of_forty_pairs(sentences: list[str], tell: str, of_one: bool) -> None:
    told = text_classifier.evaluate_classifier(_prose(sentences, 1, TELLS[tell], of_one), 18)
    assert told.auc > 0.9 and told.is_above(0.6)


def test_classifier_has_the_nominal_rate_of_false_alarms(sentences: list[str]) -> None:
    """Of 24 at 2.5 %, more than 3 would occur once in 300 runs; none may be above the margin of planted errors."""
    found = [text_classifier.evaluate_classifier(_prose(sentences, seed, str, seed % 2 == 0), 18) for seed in range(24)]
    assert sum(told.is_above(0.5) for told in found) <= 3
    assert sum(told.p <= text_classifier.MAX_P for told in found) <= 3
    assert not any(told.is_above(style_tests.PLANTED_MARGIN) for told in found)


def test_classifier_detects_a_tell_in_other_texts_about_as_often_as_its_power_states(sentences: list[str]) -> None:
    """A sign in the stated share of the twins of other prose is found about as often as stated."""
    rows = _prose(sentences, 5, str, False)
    power = text_classifier.find_power(rows, 0.6, text_classifier.evaluate_classifier(rows, 18).chance, 18)
    assert power and 0.7 <= power.auc <= 0.95 and power.n_detected >= 0.8 * text_classifier.TRIALS
    rng = random.Random(6)

    def tell(text: str) -> str:
        return TELLS["exclamation"](text) if rng.random() < 2 * power.auc - 1 else text

    told = [text_classifier.evaluate_classifier(_prose(sentences, seed, tell, False), 18) for seed in range(100, 110)]
    assert sum(one.is_above(0.6) for one in told) >= 6  # of 10 at 80 %, fewer than 6 come 3 times in 100 runs


def test_classifier_of_empty_texts_finds_nothing() -> None:
    told = text_classifier.evaluate_classifier([example._replace(text="") for example in _examples(1, 0.0)], 5)
    assert told.auc == 0.5 and told.p == 1


def test_classifier_states_no_power_if_even_a_word_in_every_twin_would_be_missed(sentences: list[str]) -> None:
    rows = _prose(sentences, 5, str, False)[:20]
    assert text_classifier.find_power(rows, 0.8, text_classifier.evaluate_classifier(rows, 18).chance, 18) is None


def test_permutation_swaps_twin_labels_within_pairs_or_between_pairs_of_a_single_kind() -> None:
    np = text_classifier.np
    kinds, pairs = np.array([0, 1, 1, 0, 1, 1, 0, 0, 1, 0]), np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5])
    strata = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    seen = {
        tuple(text_classifier.permute_kinds(kinds, pairs, strata, np.random.default_rng(at)).tolist())
        for at in range(200)
    }
    assert len(seen) == 16
    for other in seen:
        assert other[0] != other[1] and other[2] != other[3] and other[8] != other[9]
        assert other[4] == other[5] != other[6] == other[7]


def test_classifier_never_has_versions_of_one_pair_in_training_and_test() -> None:
    """Each pair has a word of its own and both versions one kind: a model trained on one version would know the other's kind."""
    rng = random.Random(4)
    kinds = [rng.randint(0, 1) for _ in range(60)]
    rows = [Example(f"pair{at} " * 20, kind, at, "a") for at, kind in enumerate(kinds) for _ in range(2)]
    assert text_classifier.evaluate_classifier(rows, 3).low < 0.6


def test_classifier_is_reproducible_from_its_seed() -> None:
    assert text_classifier.evaluate_classifier(_examples(3, 0.3), 5) == text_classifier.evaluate_classifier(
        _examples(3, 0.3), 5
    )


def _load_sources(study: Study) -> list[ItemSource]:
    return list(ItemSource.objects.filter(item__study=study).select_related("item").order_by("item__code"))


@pytest.mark.django_db
def test_style_check_with_too_few_items_states_the_number_needed_and_no_counts(laboratory: None) -> None:
    planted, sources = style_tests.check_styles(_load_sources(open_study_to_audit()))
    assert planted.is_undecided and sources.is_undecided
    assert (
        f"about {text_classifier.count_needed_items(0.75, 0.6)} of each to confirm scores with an AUC of 0.75"
        in planted.skipped
    )
    assert planted.power["smallest_auc"] is None and planted.power["reason"] == "too few"


def _sources(mark: str) -> list[ItemSource]:
    """Forty pairs, each an original and a twin whose one observation ends with a mark."""
    rng = random.Random(7)
    found = []
    for at in range(40):
        text = " ".join(rng.choice(["the", "band", "is", "clear", "at", "red", "3", "very"]) for _ in range(25))
        for kind, end in (("none", ""), ("subtle", mark)):
            seen = [{"type": "visual", "description": f"{text} {rng.choice(['cold', 'warm'])}{end}", "value": ""}]
            item = Item(payload={"kind": "transition", "after": [], "observations": seen, "rejected": ""})
            one = ItemSource(item=item, label="offline", perturbation=kind, action="Mix")
            one.reference = find_reference(kind, None)
            one.pair = f"{at}"  # type: ignore[assignment]
            found.append(one)
    return found


def test_style_check_fails_if_twins_have_another_style_and_passes_otherwise() -> None:
    leaks, _ = style_tests.check_styles(_sources("; (-)"))
    assert leaks.has_failed and leaks.to_dict()["leaks"][0]["where"] == "planted / unperturbed"
    holds, none = style_tests.check_styles(_sources(""))
    assert holds.is_passed and holds.looked_at == 1 and none.is_undecided
    assert 0.6 < holds.power["smallest_auc"] < 0.95
    assert holds.power["found"] >= 0.8 * holds.power["trials"] and "not covered" in holds.power["not_covered"]


def test_style_check_does_not_treat_unlabelled_items_as_unperturbed() -> None:
    sources = _sources("; (-)")
    for source in sources:
        source.reference = find_reference(None, None) if source.perturbation == "none" else source.reference
    planted, _ = style_tests.check_styles(sources)
    assert planted.is_undecided


@pytest.fixture
def told(laboratory: None) -> Study:
    """An opened study with an item that was released although it contains "as Gemini predicted"."""
    study = open_study_to_audit()
    item = study.items.order_by("pk").first()
    assert item
    item.payload["observations"] = [{"type": "visual", "description": "Clear, as Gemini predicted", "value": ""}]
    item.payload_sha256 = payload_digest(item.payload)
    item.save()
    Quarantine.objects.create(study=study, payload_sha256=item.payload_sha256, payload={}, decision="released")
    return study


@pytest.mark.django_db
def test_audit_fails_on_a_released_item_with_a_name_and_reports_its_code_only(told: Study) -> None:
    checks = {check.name: check for check in stored_items.check_payloads(told, collect_sealed_values(told))}
    found = checks["names of sources"]
    item = told.items.get(payload__observations__0__description="Clear, as Gemini predicted")
    assert found.has_failed and checks["payload words"].is_passed
    (leak,) = found.leaks
    assert leak.where == f"item {item.code}: payload.observations[].description"
    assert leak.what == "the name of a model" and "gemini" not in str(found.to_dict()).lower()


@pytest.mark.django_db
def test_blinded_certificate_has_the_item_and_the_power_but_no_measurements(told: Study) -> None:
    checks = [
        *stored_items.check_payloads(told, collect_sealed_values(told)),
        *style_tests.check_styles(_load_sources(told)),
    ]
    report: dict[str, Any] = audit_runner.build_report(told, checks)
    audit_runner.store_report(told, report)
    assert not BlindingAudit.objects.get().passed
    shown = study_facts.get_blinding_certificate(told, blinded=True)
    assert shown
    whole = str(shown["report"])
    assert "item " in whole and "gemini" not in whole.lower() and "'measured': {}" in whole
    assert [check["power"]["margin"] for check in shown["report"]["checks"] if check["power"]] == [0.6, 0.8]


@pytest.mark.django_db
def test_audit_page_explains_the_power_and_what_is_not_covered(told: Study, admin_client: Client) -> None:
    planted, _ = style_tests.check_styles(_sources(""))
    audit_runner.store_report(told, audit_runner.build_report(told, [planted]))
    page = " ".join(admin_client.get(f"/studies/{told.slug}/audit/").content.decode().split())
    power = planted.power
    assert f"an AUC of {power['smallest_auc']:.2f} was detected in {power['found']} of {power['trials']} trials" in page
    assert power["not_covered"] in page
