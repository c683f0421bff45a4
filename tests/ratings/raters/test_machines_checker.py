"""Tests of the checker as a rater: from the blinded payload alone it finds almost all errors that it finds in the record."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from ratings.blinding import Payload, blind_transition
from ratings.blinding.material_rows import list_mark_keys
from ratings.models import Item, MachineRater, MachineRating, Study
from ratings.raters import checker_rater, model_raters
from simulation.checker import check_transition
from tests.simulation.checker.corpus import iter_episode_lines
from tests.support import rating_room, run_factory, study_factory
from tests.support.data_files import CATALOGUE as TYPES
from tests.support.data_files import load_specs

SPECS = list(load_specs().values())


def blind_line(line: dict[str, Any]) -> Payload:
    return blind_transition({"inputs": line["input_materials"], "action": line["action"], "outcome": line["outcome"]})


@pytest.mark.parametrize("slug", ["caffeine-hplc-analysis", "minicell-uptake"])
def test_checker_finds_almost_as_many_errors_in_blinded_payloads_as_in_full_transitions(slug: str) -> None:
    spec = next(spec for spec in SPECS if spec.slug == slug)
    lines = list(iter_episode_lines(spec, TYPES, "protocol", seed=11, twins=True))
    genuine = [line for line in lines if line["truth"] == "correct"]
    planted = [line for line in lines if check_transition(line).verdict == "error"]
    assert not [checker_rater.rate_payload(blind_line(line)).reason for line in genuine if is_rated_wrong(line)], (
        "a false alarm"
    )
    assert len(planted) > 20 and sum(map(is_rated_wrong, planted)) >= 0.97 * len(planted)


def is_rated_wrong(line: dict[str, Any]) -> bool:
    return checker_rater.rate_payload(blind_line(line)).verdict is False


def test_checker_rating_marks_the_wrong_row_and_gives_a_reason() -> None:
    step = rating_room.build_dilution(100)  # the product, material D, is in a vial of 2 mL
    assert checker_rater.rate_payload(blind_transition(step)).verdict is True
    step["outcome"]["new_materials"][1]["properties"]["volume"] = "3 mL"
    found = checker_rater.rate_payload(blind_transition(step))
    assert found.verdict is False and "D:Volume" in found.marks and "L05" in found.reason and "3 mL" in found.reason
    assert set(found.marks) <= set(list_mark_keys(blind_transition(step)))


def test_checker_rating_has_no_verdict_if_nothing_can_be_compared() -> None:
    payload = blind_transition(rating_room.build_rejection())
    assert checker_rater.rate_payload(payload) == (None, (), "")


def test_checker_rating_reads_nothing_but_the_texts_of_the_payload() -> None:
    payload = blind_transition(rating_room.build_dilution(100))
    texts = collect_texts(payload) | set(_CODES)
    assert {text for text in collect_texts(checker_rater.payload_to_transition(payload)) if text not in texts} == set()


_CODES = ("room_temp", "available_for_further_use", "unlimited", "")


def collect_texts(value: Any) -> set[str]:
    """Return every text value, but no key, of nested data."""
    if isinstance(value, dict):
        return set().union(*map(collect_texts, value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*map(collect_texts, value)) if value else set()
    return {value} if isinstance(value, str) else set()


# In a study


@pytest.fixture
def study(db: None) -> Study:
    """Open a study of four genuine items, three obvious and three subtle errors, all assigned to two raters."""
    run_factory.create_pool()
    return study_factory.create_open_study(raters=2)


def run_rating_command(study: Study) -> str:
    out = StringIO()
    call_command("rate_with_model", study.slug, "--cast", "checker", stdout=out, stderr=StringIO())
    return out.getvalue()


def unblind(study: Study) -> None:
    Study.objects.filter(pk=study.pk).update(status="unblinded", unblinded_at=timezone.now())
    study.refresh_from_db()


def test_checker_rating_of_a_study_needs_no_call_run_or_confidence(study: Study) -> None:
    told = run_rating_command(study)
    rater = MachineRater.objects.get()
    assert (rater.name, rater.run, rater.cast) == ("WetBench checker", None, "checker")
    assert "10 items to rate, payload alone" in told and "calls" not in told
    assert MachineRating.objects.count() == 10
    assert not MachineRating.objects.exclude(confidence=None).exists()
    for rating in MachineRating.objects.select_related("item"):
        found = checker_rater.rate_payload(rating.item.payload)
        assert (rating.verdict, rating.marks, rating.reasoning) == (found.verdict, list(found.marks), found.reason)
    unblind(study)
    assert model_raters.list_names(study) == {"M1": model_raters.MachineName("WetBench checker", "checker")}


def test_checker_rating_requested_again_rates_items_added_since(study: Study) -> None:
    run_rating_command(study)
    first = study.items.earliest("pk")
    payload = {**first.payload, "observations": [{"type": "visual", "description": "New", "value": ""}]}
    Item.objects.create(study=study, payload=payload, payload_sha256="f" * 64, created_at=timezone.now())
    assert "1 items to rate" in run_rating_command(study) and MachineRating.objects.count() == 11
