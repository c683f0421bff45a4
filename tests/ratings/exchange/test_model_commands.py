"""The commands human_model, pass_at_k and sample_size: their numbers are those of the pages, and errors name what to change."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command, load_command_class

from ratings.models import Study
from ratings.results.analyses import document as analysis_document
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import list_records
from ratings.results.benchmarks import store
from ratings.stats import human_model
from ratings.stats.ratings_table import RatingRecord, build_ratings_table
from simulation.models import Run
from tests.support import run_factory, study_factory


def run(*arguments: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


def read_csv(*arguments: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run(*arguments))))


def fail(*arguments: object) -> str:
    err = io.StringIO()
    with pytest.raises(CommandError) as caught:
        call_command(*map(str, arguments), stdout=io.StringIO(), stderr=err)
    return f"{err.getvalue()}{caught.value}"


# Two people who differ on every fifth of 60 items, and two models: one agrees with the first person, one has 1 throughout.
VERDICTS = {
    "ann": [i % 2 for i in range(60)],
    "bob": [(i + (i % 5 == 0)) % 2 for i in range(60)],
    "model-a": [i % 2 for i in range(60)],
    "model-b": [1] * 60,
}


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    lines = (
        f"i{i:02},{rater},{verdict}\n" for rater, verdicts in VERDICTS.items() for i, verdict in enumerate(verdicts)
    )
    path.write_text("item,rater,verdict\n" + "".join(lines))
    return path


def test_human_model_command_prints_the_comparison_of_models_with_people(ratings) -> None:
    rows = {
        row["who"]: row for row in read_csv("human_model", ratings, "--models", "model-a,model-b", "--resamples", 200)
    }
    # Ann and Bob differ on 12 of 60 items and each says 1 on half of them: agreement .8, kappa .6. Model A agrees with Ann
    # throughout and with Bob as Ann does: agreement (1 + .8)/2, kappa (1 + .6)/2. Model B is constant: kappa 0.
    assert float(rows[human_model.PEOPLE]["kappa"]) == pytest.approx(0.6)
    assert float(rows["model-a"]["agreement"]) == pytest.approx(0.9)
    assert float(rows["model-a"]["kappa"]) == pytest.approx(0.8)
    assert float(rows["model-b"]["kappa"]) == 0
    assert float(rows["model-a"]["kappa_low"]) < 0.8 < float(rows["model-a"]["kappa_high"])
    people = build_ratings_table(
        RatingRecord(f"i{i:02}", rater, verdict)
        for rater in ("ann", "bob")
        for i, verdict in enumerate(VERDICTS[rater])
    )
    models = {name: {f"i{i:02}": one for i, one in enumerate(VERDICTS[name])} for name in ("model-a", "model-b")}
    expected = human_model.compare_models(people, models, resamples=200)
    assert [row.name for row in expected] == list(rows)
    own = json.loads(run("human_model", ratings, "--models", "model-a,model-b", "--resamples", 200, "--json"))
    assert own == [row.to_dict() for one in expected for row in (one.agreement, one.kappa, one.difference)]


def test_human_model_command_prints_the_conditional_matrix(ratings) -> None:
    cells = {
        (row["row"], row["col"]): row
        for row in read_csv("human_model", ratings, "--models", "model-a,model-b", "--table", "conditional")
    }
    assert len(cells) == 16
    # Where model B has 1 (always), model A has 1 on 30 of 60; where model A has 1, model B always has.
    assert (cells["model-b", "model-a"]["share"], cells["model-b", "model-a"]["base"]) == ("0.5", "60")
    assert (cells["model-a", "model-b"]["share"], cells["model-a", "model-b"]["base"]) == ("1.0", "30")
    records = json.loads(run("human_model", ratings, "--models", "model-b", "--table", "fractions", "--json"))
    assert records[0]["who"] == "model-b" and (records[0]["share"], records[0]["judged"]) == (1.0, 60)


def test_human_model_command_states_what_to_change(ratings, tmp_path) -> None:
    assert "--models A,B" in fail("human_model", ratings)
    assert "no ratings by gpt; the raters are: ann, bob, model-a, model-b" in fail(
        "human_model", ratings, "--models", "gpt"
    )
    assert "nobody to compare" in fail("human_model", ratings, "--models", ",".join(VERDICTS))
    assert "give a file, or --study" in fail("human_model")
    words = tmp_path / "words.csv"
    words.write_text("item,rater,verdict\n1,a,x\n1,b,y\n2,a,z\n")
    assert "verdicts of 1 and 0" in fail("human_model", words, "--models", "a")


def write_attempts(path: Path, **agents: str) -> Path:
    """Write attempts: for each agent, tasks separated by spaces with a digit for each attempt."""
    lines = (
        f"{agent},task {task},{mark}\n"
        for agent, tasks in agents.items()
        for task, marks in enumerate(tasks.split())
        for mark in marks
    )
    path.write_text("agent,task,success\n" + "".join(lines))
    return path


def test_pass_at_k_command_prints_the_unbiased_mean_and_differences(tmp_path) -> None:
    path = write_attempts(tmp_path / "a.csv", strong="111 110 100 111 110", weak="100 000 000 100 000")
    rows = read_csv("pass_at_k", path, "--k", "1,2", "--compare", "--resamples", 500)
    values = {(row["stat"], row["agent"], row["k"]): row for row in rows}
    # pass@1: (3 + 2 + 1 + 3 + 2)/15; pass@2: 1 - C(3-c, 2)/3 is 1, 1, 1 - 1/3, 1, 1
    assert float(values["pass_at_k", "strong", "1"]["value"]) == pytest.approx(11 / 15)
    assert float(values["pass_at_k", "strong", "2"]["value"]) == pytest.approx((4 + 2 / 3) / 5)
    assert float(values["pass_at_k", "weak", "1"]["value"]) == pytest.approx(2 / 15)
    difference = values["pass_at_k_difference", "strong", "1"]
    assert float(difference["value"]) == pytest.approx(9 / 15) and difference["other_agent"] == "weak"
    assert 0 < float(difference["low"]) < float(difference["value"])
    assert (values["pass_at_k", "weak", "1"]["attempts"], values["pass_at_k", "weak", "1"]["successes"]) == ("15", "2")


def test_pass_at_k_command_gives_a_reason_where_attempts_are_too_few(tmp_path) -> None:
    path = write_attempts(tmp_path / "a.csv", only="11 1 0")
    (row,) = json.loads(run("pass_at_k", path, "--k", 2, "--json"))
    assert row["value"] is None and row["reason"].startswith("2 of 3 experiments have fewer than 2 replicates")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agent,task\na,b\n", "missing: success; it names: agent, task"),
        ("agent,task,success\na,b,maybe\n", "line 2: success: is 'maybe'; it must be 1 or 0"),
        ("agent,task,success\na,,1\n", "line 2: task: is ''"),
        ("agent,task,success\na,b\n", "has 2 cells, the first line 3"),
        ("agent,task,success\n", "no row has an attempt"),
        ("", "the file is empty"),
    ],
)
def test_pass_at_k_command_names_the_line_of_a_problem(tmp_path, text: str, message: str) -> None:
    path = tmp_path / "attempts.csv"
    path.write_text(text)
    assert message in fail("pass_at_k", path)


@pytest.mark.django_db
def test_pass_at_k_command_lists_the_benchmarks_if_the_name_is_unknown() -> None:
    assert "no benchmark has the name or code July; there are: none" in fail("pass_at_k", "--benchmark", "July")


@pytest.mark.django_db
def test_human_model_command_reports_an_unknown_study() -> None:
    assert "nowhere" in fail("human_model", "--study", "nowhere")


def compute_size(*arguments: object) -> dict[str, Any]:
    return json.loads(run("sample_size", *arguments, "--json"))


def test_sample_size_command_prints_the_items_for_kappa_and_for_areas() -> None:
    # Cantor's method at shares of 1/2, one-sided: 119 items (see tests/ratings/stats/test_sample_size.py).
    kappa = compute_size("kappa", "--share", 0.5, "--null", 0.4, "--expected", 0.6, "--one-sided")
    assert (kappa["items"], kappa["method"][:6]) == (119, "Cantor")
    # Obuchowski and McClish at .75, two items without an error for each with one: null .0099 (8 + 4) = .1188;
    # a = 1.414 z(.75) = .9537, .0099 exp(-.4548) (12.548 + 4.455) = .10681;
    # (1.95996 sqrt(.1188) + .84162 sqrt(.10681))^2 / .0625 = 14.48, so 15 and 30
    area = compute_size("area", "--null", 0.5, "--expected", 0.75, "--ratio", 2)
    assert (area["with_error"], area["without_error"], area["items"]) == (15, 30, 45)
    text = run("sample_size", "two-areas", "--first", 0.7, "--second", 0.75, "--one-sided")
    assert text.startswith(
        "653 items with and 653 without an error for each of the two areas to distinguish 0.75 from 0.7"
    )
    (row,) = read_csv("sample_size", "kappa", "--share", 0.5, "--expected", 0.6, "--half-width", 0.1, "--csv")
    assert (row["items"], row["half_width"]) == ("246", "0.1")


def test_sample_size_command_states_what_to_change() -> None:
    assert "several raters need --rater-sd" in fail(
        "sample_size", "area", "--expected", 0.8, "--null", 0.5, "--raters", 3
    )
    assert "cannot have a kappa" in fail(
        "sample_size", "kappa", "--share", 0.2, "--second-share", 0.7, "--expected", 0.8, "--null", 0.4
    )
    assert "--expected is 1.2" in fail("sample_size", "area", "--expected", 1.2, "--null", 0.5)
    assert "not a number above 0 and below 1" in fail(
        "sample_size", "kappa", "--share", 2, "--expected", 0.5, "--null", 0.4
    )
    text = run(
        "sample_size", "area", "--expected", 0.8, "--half-width", 0.02, "--raters", 3, "--rater-sd", 0.05, "--correlation", 0.4
    )  # fmt: skip
    assert "plan more raters" in text


@pytest.mark.parametrize("name", ["human_model", "pass_at_k", "sample_size"])
def test_commands_for_models_and_sizes_have_examples_in_their_help(name: str) -> None:
    assert f"manage.py {name} " in load_command_class("ratings", name).create_parser("manage.py", name).format_help()


@pytest.mark.django_db
def test_human_model_command_prints_the_tables_of_a_study(tmp_path, admin_user) -> None:
    run_factory.create_pool()
    document = tmp_path / "protocol.json"
    document.write_text(json.dumps(study_factory.build_protocol()))
    run("create_study", document, "--open", "--raters", 6)
    run("simulate_raters", "small-study", "--raters", 6, "--seed", 3)
    assert "are sealed until it is unblinded" in fail("human_model", "--study", "small-study")
    run("unblind", "small-study", "--by", admin_user.username)
    assert "has no verdicts of models or classifiers" in fail("human_model", "--study", "small-study")
    run("rate_with_model", "small-study", "--cast", "checker")
    study = Study.objects.get()
    made = analysis_document.build_document(study, Filters(), "state", resamples=40)
    expected = list_records(made["tables"]["human_model"])
    rows = read_csv("human_model", "--study", "small-study", "--resamples", 40)
    assert len(rows) == len(expected) > 2
    for row, of_page in zip(rows, expected, strict=True):
        assert row["who"] == of_page["who"]
        for name in ("agreement", "kappa", "kappa_low"):
            assert (float(row[name]) if row[name] else None) == of_page[name]


@pytest.mark.django_db
def test_pass_at_k_command_prints_the_numbers_of_a_benchmark() -> None:
    for replicate in (1, 2, 3):
        run_factory.create_episode("caffeine", "a", replicate, "truncated")
        run_factory.create_episode("zebrafish", "a", replicate, "truncated")
    store.freeze_benchmark("July", list(Run.objects.all()))
    (row,) = read_csv("pass_at_k", "--benchmark", "July", "--k", 2)
    assert (row["agent"], row["value"], row["tasks"], row["attempts"], row["successes"]) == ("a", "0.0", "2", "6", "0")
    assert row["method"] == "clopper_pearson"
