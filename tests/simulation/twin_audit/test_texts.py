"""Texts that differ between twins and originals, and the spread of errors over fields."""

import json

import pytest
from django.core.management import CommandError, call_command

from simulation.twin_audit import balance, report, texts


def test_word_that_only_twins_have_is_reported(pair, transfer):
    frozen = [pair(transfer(wells=("1 mL", "1 mL"), state="frozen")) for _ in range(10)]
    same = [pair(transfer()) for _ in range(90)]
    [by_word, by_place] = sorted(texts.find_text_differences(frozen + same), key=lambda each: each.place)
    assert (by_place.place, by_place.text) == ("state", "frozen")
    assert (by_word.place, by_word.text, by_word.twins, by_word.originals) == (texts.ANY_PLACE, "frozen", 10, 0)
    # 10 of 10 in one direction: 2 * 0.5 ** 10, and the correction for two tests with equal p-values leaves it.
    assert by_word.p == pytest.approx(2 * 0.5**10)
    assert by_word.difference == pytest.approx(0.1)
    assert not by_word.is_within_aim


def test_text_that_twins_gain_as_often_as_they_lose_is_not_reported(pair, transfer):
    plain, frozen = transfer(), transfer(state="frozen")
    pairs = [pair(frozen, original=plain) for _ in range(20)] + [pair(plain, original=frozen) for _ in range(20)]
    assert texts.find_text_differences(pairs) == []


def test_fields_are_named_by_property_and_by_what_a_record_measures(pair, transfer):
    step = transfer()
    step.observations[0]["description"] = "HPLC of Buffer, wavelength 273 nm: peak area"
    named = {
        "new_materials[1].properties.volume": "volume",
        "new_materials[0].properties.sodium chloride concentration": "concentration",
        "new_materials[0].environmental_condition": "environmental_condition",
        "new_observations[0].value": "record of peak area",
        "new_observations[0].description": "heading of peak area",
    }
    assert {field: balance.name_field(pair(step, original=step, field=field)) for field in named} == named
    assert balance.name_field(pair(step, field="new_observations[0].value")) == "record of Delivered"


def test_two_fields_with_more_than_a_quarter_of_obvious_errors_are_beyond_the_aim(pair, transfer):
    fields = [f"new_materials[0].properties.{name}" for name in "abcdefgh"]
    # Eight fields with an eighth each: two have a quarter. Without the last one, they have 2 of 7.
    [spread] = balance.measure_spreads([pair(transfer(), field=field) for field in fields])
    assert spread.share_of_two_fields == 0.25 and spread.is_within_aim
    [spread] = balance.measure_spreads([pair(transfer(), field=field) for field in fields[:-1]])
    assert spread.share_of_two_fields == pytest.approx(2 / 7) and not spread.is_within_aim


@pytest.mark.slow
def test_audit_command_prints_every_result_and_exits_with_1_if_one_is_beyond_its_aim(capsys):
    try:
        call_command("audit_twins", pairs=36, seed=2, json=True)
        failed = False
    except CommandError as error:
        failed = error.returncode == 1
    data = json.loads(capsys.readouterr().out)
    assert failed == bool(data["faults"])
    assert data["pairs"] == 2 * 36  # 36 of 18 experiments are 2 of each experiment and type
    assert {found["error_type"] for result in data["detectors"] for found in result["found"]} == {"obvious", "subtle"}


def test_report_replaces_what_is_between_its_markers():
    page = f"before\n{report.START}\nold\n{report.END}\nafter\n"
    written = report.insert_report(page, report.AuditReport(7, 0, 0, (), (), (), (), ()))
    assert written.startswith(f"before\n{report.START}\n\n0 twins") and written.endswith(f"{report.END}\nafter\n")
    assert "seed 7" in written and "old" not in written
