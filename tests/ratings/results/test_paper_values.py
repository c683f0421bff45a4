"""The paper's numbers: one data file, validated strictly, matched by declared model and role."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import Client
from django.urls import reverse

from ratings.results import paper_values
from ratings.results.paper_values import (
    DeclaredModel,
    PaperValuesError,
    find_declared_models,
    find_paper_value,
    load_paper_values,
    read_paper_values,
)
from simulation.models import Run
from tests.support import run_factory, study_factory

GOOD = {
    "key": "a",
    "quantity": "plausibility_rate",
    "study": "transition_plausibility",
    "value": 0.5,
    "where": "section 1",
}


def write_values(path: Path, *entries: dict[str, object]) -> Path:
    """Write one entry per line, from line 3."""
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    path.write_text(f'{{"title": "t",\n "values": [\n{lines}\n]}}')
    return path


def list_problems(path: Path) -> list[str]:
    with pytest.raises(PaperValuesError) as error:
        read_paper_values(path)
    return [problem.rpartition(f"{path.name}:")[2] for problem in error.value.problems]


def test_paper_file_has_every_number_of_the_papers_text() -> None:
    numbers = {value.value for value in load_paper_values()}
    rates = {0.90, 0.93, 0.03, 0.16, 0.111}
    table_1 = {0.618, 0.583, 0.472, 0.437, 0.430, 0.526, 0.819, 0.804, 0.747, 0.722, 0.750}
    figure_5 = {0.444, 0.722, 0.500, 0.412, 0.278, 0.222, 0.056, 0.167, 0.203}
    assert rates | table_1 | figure_5 | {3.90, 0.811, 0.609} <= numbers
    assert {value.range for value in load_paper_values()} == {None, (0.746, 0.875), (0.77, 0.92)}
    assert all(value.value is not None or value.reason for value in load_paper_values())


def test_paper_file_problems_are_all_listed_with_line_and_key(tmp_path: Path) -> None:
    path = write_values(
        tmp_path / "values.json", GOOD, {**GOOD, "key": "b", "colour": 1}, {**GOOD, "key": "c", "k": "3"}
    )
    first, second = list_problems(path)
    assert first.startswith("4: values[1].colour: unknown field; allowed: error, interval, k, key, model")
    assert second.startswith("5: values[2].k: ")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"quantity": "rate"}, "values[0].quantity"), ({"role": "judge"}, "values[0].role"),
        ({"value": "0.5"}, "values[0].value"), ({"value": None}, "values[0]"), ({"interval": [0.1]}, "values[0].interval"),
    ],
)  # fmt: skip
def test_paper_file_rejects_values_that_are_not_allowed(tmp_path: Path, change: dict[str, object], place: str) -> None:
    (problem,) = list_problems(write_values(tmp_path / "values.json", {**GOOD, **change}))
    assert problem.startswith(f"3: {place}")


MODELS = ["gpt-5", "gpt-4o"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"value": 1.5}, "values[0].value: is 1.5; allowed for plausibility_rate: 0 to 1"),
        ({"interval": [0.6, 0.4]}, "values[0].interval: is 0.6 to 0.4; expected: the lower end first"),
        ({"range": [0.4, 1.2]}, "values[0].range: is 1.2; allowed for plausibility_rate: 0 to 1"),
        ({"quantity": "mean_confidence", "value": 0.5}, "values[0].value: is 0.5; allowed for mean_confidence: 1 to 5"),
        ({"quantity": "pass_at_k"}, "values[0].k: is required with the quantity pass_at_k"),
        ({"k": 2}, "values[0].k: is allowed only with the quantity pass_at_k"),
        ({"models": MODELS}, "values[0].models: is allowed only with the quantities model_agreement, "),
        ({"quantity": "model_agreement"}, "values[0].models: is required with the quantities model_agreement, "),
        ({"quantity": "conditional_agreement", "models": MODELS, "model": "x"}, "values[0].model: 'x' is not one of"),
    ],
)  # fmt: skip
def test_paper_file_rejects_impossible_values(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    (found,) = list_problems(write_values(tmp_path / "values.json", {**GOOD, **change}))
    assert found.startswith(f"3: {problem}")


def test_paper_file_rejects_nan_duplicate_keys_and_duplicate_entries(tmp_path: Path) -> None:
    path = write_values(tmp_path / "values.json", GOOD, {**GOOD, "key": "b"})
    (found,) = list_problems(path)
    assert found.startswith("4: values[1]: has the same quantity, study, model, role, error and k as values[0]")
    text = path.read_text()
    path.write_text(text.replace("0.5", "NaN"))
    assert "NaN is not a number" in list_problems(path)[0]
    path.write_text(text.replace('"key": "b"', '"key": "b",\n"key": "c"'))
    assert list_problems(path)[0].startswith("5: not JSON: the field 'key' occurs twice")
    path.write_text(text.replace("0.5", "1e999", 1))
    assert list_problems(path)[0].startswith("3: values[0].value: ")


@pytest.fixture
def broken_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a data file with a wrong key on its fourth line, used by the site."""
    path = write_values(
        tmp_path / "values.json", GOOD, {**GOOD, "key": "b", "colour": 1, "study": "evidence_sufficiency"}
    )
    monkeypatch.setattr(paper_values, "PATH", path)
    load_paper_values.cache_clear()
    yield path
    load_paper_values.cache_clear()


def test_system_check_reports_line_and_key_of_a_broken_paper_file(broken_file: Path) -> None:
    (found,) = run_checks(tags=["paper"])
    assert found.id == "wetbench.E009" and f"{broken_file.name}:4: values[1].colour: unknown field" in found.msg
    with pytest.raises(SystemCheckError, match=r"values\.json:4: values"):
        call_command("check")


@pytest.mark.django_db
def test_paper_page_shows_the_problems_of_the_file(broken_file: Path, boss: Client) -> None:
    answer = boss.get(reverse("ratings:paper"))
    assert answer.status_code == 503 and "values.json:4: values[1].colour: unknown field" in answer.content.decode()
    answer = boss.get(reverse("ratings:paper_json"))
    assert answer.status_code == 503 and "values[1].colour" in answer.json()["problems"][0]


def test_paper_file_that_is_missing_or_broken_or_has_duplicate_keys_is_refused(tmp_path: Path) -> None:
    assert "'a' is used twice" in list_problems(write_values(tmp_path / "twice.json", GOOD, GOOD))[0]
    broken = tmp_path / "broken.json"
    broken.write_text('{"title": "t",\n "values": [}')
    assert list_problems(broken)[0].startswith("2: not JSON")
    assert "cannot be read" in list_problems(tmp_path / "none.json")[0]


def test_paper_value_description_has_n_and_interval_if_reported() -> None:
    entry = paper_values.PaperValue(**GOOD, n=360, interval=(0.45, 0.55))
    assert entry.description == "Published: 50% (n = 360, 95% interval 45% to 55%; section 1)."
    assert find_paper_value("mean_confidence", "transition_plausibility").description == (
        "Published: 3.9 ± 0.59 (n and interval not reported; section 5.1)."
    )


@pytest.mark.django_db
def test_declared_model_of_a_source_comes_from_the_run_configuration() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    assert find_declared_models(study) == {}  # rules
    Run.objects.update(setup={"cast": {"transition_model": {"model": "gpt-5"}}})
    assert find_declared_models(study) == {
        "offline": DeclaredModel("gpt-5", "transition_model"),
        "offline, obvious error": DeclaredModel("gpt-5", "twin_maker"),
        "offline, subtle error": DeclaredModel("gpt-5", "twin_maker"),
    }
    other = Run.objects.create(submission_id="other", kind="twins", cast="offline", seed=1, setup={})
    twin = study.items.filter(source__perturbation="subtle")[0].source.twin
    twin.run = other
    twin.save()
    assert "offline, subtle error" not in find_declared_models(study)  # of a model and of rules
