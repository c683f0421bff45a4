"""Bringing the data files into the database."""

import json
import shutil
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from simulation.casts import fixtures
from simulation.models import CatalogueEntry, Experiment

pytestmark = pytest.mark.django_db


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(settings.FIXTURES_DIR, tmp_path / "fixtures"))


def spoil(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_laboratory_is_loaded_and_loading_it_again_changes_nothing(copy: Path) -> None:
    first = fixtures.load_lab(copy)
    assert first["actions"].new >= 25 and first["experiments"].new >= 3
    again = fixtures.load_lab(copy)
    assert again["actions"] == (0, 0, first["actions"].new) and again["experiments"] == (0, 0, first["experiments"].new)


def test_a_changed_goal_reaches_the_database(copy: Path) -> None:
    fixtures.load_lab(copy)
    spoil(copy / "experiments/zebrafish-genotyping.json", goal="Another goal.")
    assert fixtures.load_lab(copy)["experiments"].changed == 1
    assert Experiment.objects.get(slug="zebrafish-genotyping").goal == "Another goal."


def test_wrong_files_are_all_named_with_field_and_allowed_values_and_nothing_is_loaded(copy: Path) -> None:
    spoil(copy / "actions/Transfer.json", kind="magic")
    spoil(copy / "actions/Wait.json", fidelity="sure")
    with pytest.raises(CommandError) as refused:
        call_command("load_lab", directory=copy)
    said = str(refused.value)
    assert "Transfer.json:1: kind: is 'magic'; allowed: transformation, measurement, synthesis, control" in said
    assert "Wait.json:1: fidelity: is 'sure'; allowed: quantities computed, state tracked, bookkeeping only" in said
    assert not CatalogueEntry.objects.exists() and not Experiment.objects.exists()


def test_a_wrong_directory_is_refused_and_the_actions_loaded_before_stay(copy: Path, tmp_path: Path) -> None:
    fixtures.load_lab(copy)
    before = CatalogueEntry.objects.count()
    with pytest.raises(CommandError, match=r"elsewhere/actions: holds no data file"):
        call_command("load_lab", directory=tmp_path / "elsewhere")
    assert CatalogueEntry.objects.count() == before > 0


def test_a_wrong_experiment_names_entry_and_field(copy: Path) -> None:
    path = copy / "experiments/caffeine-hplc-analysis.json"
    materials = json.loads(path.read_text())["materials"]
    materials[2]["available_for_use"] = "sometimes"
    spoil(path, materials=materials)
    with pytest.raises(
        CommandError, match=r"caffeine-hplc-analysis\.json:1: materials\[2\]\.available_for_use"
    ) as refused:
        call_command("load_lab", directory=copy)
    assert "unlimited" in str(refused.value)
    assert not CatalogueEntry.objects.exists()


def test_a_file_that_is_no_json_is_named(copy: Path) -> None:
    (copy / "actions/Mix.json").write_text("{")
    with pytest.raises(CommandError, match=r"Mix\.json:1: not JSON"):
        call_command("load_lab", directory=copy)


def test_a_hidden_truth_that_the_simulator_could_not_read_is_refused(copy: Path) -> None:
    path = copy / "experiments/caffeine-hplc-analysis.json"
    truth = json.loads(path.read_text())["truth"]
    truth["responses"][0]["slope"] = "steep"
    spoil(path, truth=truth)
    with pytest.raises(CommandError, match=r"caffeine-hplc-analysis\.json:1: truth\.responses\[0\]\.slope"):
        call_command("load_lab", directory=copy)
    assert not Experiment.objects.exists()


def test_an_action_whose_handler_there_is_not_is_refused(copy: Path) -> None:
    spoil(copy / "actions/Mix.json", handler="stir_by_magic")
    with pytest.raises(CommandError, match=r"Mix\.json:1: handler: is 'stir_by_magic'; allowed: .*transfer"):
        call_command("load_lab", directory=copy)
    assert not CatalogueEntry.objects.exists()
