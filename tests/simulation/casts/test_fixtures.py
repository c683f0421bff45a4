"""Loading the data files into the database."""

import json
import shutil
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from simulation.casts import load_files
from simulation.casts.load_files import has_digest, hash_experiment
from simulation.models import CatalogueEntry, Experiment
from simulation.offline import RULES_VERSION
from wetbench_site.text import hash_json

pytestmark = pytest.mark.django_db


@pytest.fixture
def fixtures_copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(settings.FIXTURES_DIR, tmp_path / "fixtures"))


def change_file(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_loading_the_laboratory_twice_changes_nothing(fixtures_copy: Path) -> None:
    first = load_files.load_lab(fixtures_copy)
    assert first["actions"].new >= 25 and first["experiments"].new >= 3
    again = load_files.load_lab(fixtures_copy)
    assert again["actions"] == (0, 0, first["actions"].new) and again["experiments"] == (0, 0, first["experiments"].new)


def test_changed_goal_is_loaded(fixtures_copy: Path) -> None:
    load_files.load_lab(fixtures_copy)
    change_file(fixtures_copy / "experiments/zebrafish-genotyping.json", goal="Another goal.")
    assert load_files.load_lab(fixtures_copy)["experiments"].changed == 1
    assert Experiment.objects.get(slug="zebrafish-genotyping").goal == "Another goal."


def test_all_wrong_files_are_reported_and_nothing_is_loaded(fixtures_copy: Path) -> None:
    change_file(fixtures_copy / "actions/Transfer.json", kind="magic")
    change_file(fixtures_copy / "actions/Wait.json", fidelity="sure")
    with pytest.raises(CommandError) as refused:
        call_command("load_lab", directory=fixtures_copy)
    said = str(refused.value)
    assert "Transfer.json:1: kind: is 'magic'; allowed: transformation, measurement, synthesis, control" in said
    assert (
        "Wait.json:1: fidelity: is 'sure'; allowed: quantities computed, state tracked, declared readings, bookkeeping only"
        in said
    )
    assert not CatalogueEntry.objects.exists() and not Experiment.objects.exists()


def test_wrong_directory_is_refused_and_loaded_actions_are_kept(fixtures_copy: Path, tmp_path: Path) -> None:
    load_files.load_lab(fixtures_copy)
    before = CatalogueEntry.objects.count()
    with pytest.raises(CommandError, match=r"elsewhere/actions: contains no data file"):
        call_command("load_lab", directory=tmp_path / "elsewhere")
    assert CatalogueEntry.objects.count() == before > 0


def test_wrong_experiment_is_refused_with_entry_and_field(fixtures_copy: Path) -> None:
    path = fixtures_copy / "experiments/caffeine-hplc-analysis.json"
    materials = json.loads(path.read_text())["materials"]
    materials[2]["available_for_use"] = "sometimes"
    change_file(path, materials=materials)
    with pytest.raises(
        CommandError, match=r"caffeine-hplc-analysis\.json:1: materials\[2\]\.available_for_use"
    ) as refused:
        call_command("load_lab", directory=fixtures_copy)
    assert "unlimited" in str(refused.value)
    assert not CatalogueEntry.objects.exists()


def test_invalid_json_file_is_reported_by_name(fixtures_copy: Path) -> None:
    (fixtures_copy / "actions/Mix.json").write_text("{")
    with pytest.raises(CommandError, match=r"Mix\.json:1: not JSON"):
        call_command("load_lab", directory=fixtures_copy)


def test_invalid_hidden_truth_is_refused(fixtures_copy: Path) -> None:
    path = fixtures_copy / "experiments/caffeine-hplc-analysis.json"
    truth = json.loads(path.read_text())["truth"]
    truth["responses"][0]["slope"] = "steep"
    change_file(path, truth=truth)
    with pytest.raises(CommandError, match=r"caffeine-hplc-analysis\.json:1: truth\.responses\[0\]\.slope"):
        call_command("load_lab", directory=fixtures_copy)
    assert not Experiment.objects.exists()


def test_action_with_an_unknown_handler_is_refused(fixtures_copy: Path) -> None:
    change_file(fixtures_copy / "actions/Mix.json", handler="stir_by_magic")
    with pytest.raises(CommandError, match=r"Mix\.json:1: handler: is 'stir_by_magic'; allowed: .*transfer"):
        call_command("load_lab", directory=fixtures_copy)
    assert not CatalogueEntry.objects.exists()


def test_experiments_match_the_digest_of_every_version_of_the_rules_and_no_other() -> None:
    data = {"slug": "buffer", "goal": "Prepare a buffer."}
    assert has_digest(data, hash_json(data))  # before the rules had a version
    assert has_digest(data, hash_experiment(data, 2))
    assert has_digest(data, hash_experiment(data))
    assert not has_digest(data, hash_experiment(data, RULES_VERSION + 1))
    assert not has_digest({**data, "goal": "Prepare another buffer."}, hash_experiment(data))
