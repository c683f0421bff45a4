"""`make paper` on a small plan: interrupted, resumed and repeated; its page, its file, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from ratings.exchange.archive import study_facts, texts
from ratings.models import Benchmark, Rater, Rating, Study
from ratings.paper import comparison, replicate
from ratings.paper.plan import Plan, PlanFileError, ReplicationNames, load_plan, save_plan
from ratings.results.analyses import store
from ratings.results.analyses.tables import list_records
from ratings.results.paper_values import load_paper_values
from ratings.stats.human_model import PEOPLE
from ratings.studies import protocol_words
from simulation.models import CastDefinition, ModelCall, Run, Twin, TwinDecision
from simulation.runs import vetting
from tests.support.laboratory_rows import store_laboratory

pytestmark = pytest.mark.django_db(transaction=True)
OF_BENCHMARK = (
    "pass_at_k", "sufficient_rate", "majority_sufficient_rate", "consensus_sufficient_rate", "model_agreement",
    "conditional_agreement",
)  # fmt: skip
TODAY = django_settings.FIXTURES_DIR / "paper_study_today.json"
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
SMALL: dict[str, Any] = {
    "agents": ["paper", "paper-gpt-4o"],
    "experiments": ["caffeine-hplc-analysis", "zebrafish-genotyping", "minicell-uptake"],
    "attempts": 2,
    "sample": 8,
    "transitions": {"items": 4, "ratings_per_item": 3, "raters": 3},
    "evidence": {"items": 3, "ratings_per_item": 3, "raters": 3},
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    settings.VAR_DIR = tmp_path / "var"
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    save_plan(Plan.model_validate(load_plan().model_dump() | SMALL), path)
    return path


def count_rows() -> dict[str, int]:
    tables = (Run, Twin, TwinDecision, ModelCall, Study, Rater, Rating, Benchmark)
    return {table.__name__: table.objects.count() for table in tables}


class StoppedError(Exception):
    """A person pressed Ctrl-C."""


def stop_at(part: str) -> replicate.WatchProgress:
    """Return a progress watcher that raises StoppedError when half of the rows of the runs with this title have ended."""

    def watch(what: str) -> Any:
        def look(now: Any) -> None:
            if part in what and now.ended * 2 >= now.total:
                raise StoppedError(what)

        return look

    return watch


def test_stopped_replication_continues_without_repetition_and_writes_file_page_and_labels(
    plan: Path, capsys, boss: Client
) -> None:
    store_laboratory()
    for part in ("Playing scripted-paper-gpt-4o", "subtle twins"):
        with pytest.raises(StoppedError), replicate.scripted_replies(load_plan(plan)):
            replicate.Replicator(load_plan(plan), True, print, stop_at(part), 1, None).run_replication()
    call_command("paper", plan=plan, threads=1)
    said, found = capsys.readouterr().out, json.loads((django_settings.VAR_DIR / "paper.json").read_text())
    assert "The replies are scripted" in said
    without = sum(cell["ours"] is None for cell in found)
    assert said.splitlines()[-1] == f"paper: {len(found)} cells, {without} without a number, each with its reason"
    before = count_rows()
    assert before["Run"] == 2 + 3 and before["Twin"] == 3 * 8
    call_command("paper", plan=plan, threads=1)
    assert count_rows() == before
    assert json.loads((django_settings.VAR_DIR / "paper.json").read_text()) == found
    assert_cells(found)
    assert_labels()
    assert_page(found, boss)
    assert_roles(Client())


def assert_cells(made: list[dict[str, Any]]) -> None:
    """Every number of the paper is listed, and what is missing has a reason."""
    assert all(list(cell) == ["cell", "paper", "ours", "low", "high", "n", "reason"] for cell in made)
    names = [cell["cell"] for cell in made]
    assert len(set(names)) == len(names)
    for entry in load_paper_values():
        assert any(name == entry.key or name.startswith(f"{entry.key}-") for name in names)
    assert all(cell["reason"] for cell in made if None in (cell["paper"], cell["ours"], cell["low"]))
    own = {cell["cell"]: cell for cell in made}
    assert own["rate-claude-unperturbed"]["paper"] == 0.9 and own["rate-claude-unperturbed"]["n"] == 12
    assert own["fig5-gemini-1"]["reason"] == "ours: no attempts of gemini-2.5-flash"
    assert "fewer than 5 replicates" in own["fig5-gpt5-5"]["reason"]
    assert own["fig5-gpt5-1"]["n"] == 6 and own["fig5-gpt5-1"]["ours"] is not None
    # The mean confidence beside the study's ratings, by hand.
    given = Rating.objects.filter(assignment__item__study__slug="scripted-paper-transitions")
    confidences = list(given.values_list("confidence", flat=True))
    assert own["confidence-mean"]["ours"] == pytest.approx(sum(confidences) / len(confidences))


def assert_labels() -> None:
    """The studies are labelled, their raters are simulated, and all twins are accepted unread."""
    studies = Study.objects.order_by("pk")
    assert [study.slug for study in studies] == ["scripted-paper-transitions", "scripted-paper-evidence"]
    assert all("(scripted replies)" in study.name and study.is_unblinded for study in studies)
    assert not Rater.objects.filter(simulated=False).exists()
    assert {run.cast.startswith("scripted-") for run in Run.objects.all()} == {True}
    said = set(TwinDecision.objects.values_list("decision", "by", "note"))
    assert said == {("unread", None, replicate.ACCEPTED_UNREAD)} and TwinDecision.objects.count() == 2 * 8
    assert vetting.get_vetting_queue().count() == 2 * 8, "they still wait for a person"
    nobody = "accepted unread by `make paper`: nobody has checked them"
    told = {fact.name: fact.values for fact in protocol_words.describe_document(studies[0])}
    assert told["Errors checked by"] == ("Rules, for their own errors", f"some {nobody}")
    made = [store.find_full(study).document for study in studies[:2]]
    assert nobody in texts.format_methods(studies[0], study_facts.collect_study_facts(studies[0]), False, made[0])
    assert nobody not in texts.format_methods(studies[1], study_facts.collect_study_facts(studies[1]), False, made[1])
    assert nobody not in texts.format_methods(studies[0], study_facts.collect_study_facts(studies[0]), True), (
        "the blinded archive reads no source"
    )


def assert_page(made: list[dict[str, Any]], boss: Client) -> None:
    """The page shows the content of the file and states that replies are scripted."""
    page = boss.get(reverse("ratings:paper")).content.decode()
    assert "Scripted replies, simulated raters" in page and page.count("<svg") >= 10
    lines = comparison.compare_numbers(comparison.find_results(ReplicationNames(scripted=True)))
    assert [line.cell._asdict() for line in lines] == made
    for line in lines:
        assert line.shown_ours in page and line.shown_paper in page
        rated = line.cell.ours is not None and line.quantity not in OF_BENCHMARK
        assert line.remark == ("our raters are simulated" if rated else "")
    own = {line.cell.cell: line for line in lines}
    assert own["table1-kappa-human"].cell.paper == 0.526 and "our raters are simulated" in page
    assert own["confidence-mean"].basis == "± 0.59" and "<small>± 0.59</small>" in page
    study = boss.get(reverse("ratings:results", args=["scripted-paper-transitions", "statistics"])).content.decode()
    assert "Published: 3.9 ± 0.59 (n and interval not reported; section 5.1)." in study
    assert "raters are simulated: these are not human data." in study
    evidence = store.find_full(Study.objects.get(slug="scripted-paper-evidence"))
    assert evidence is not None
    table = evidence.document["tables"]["human_model"]
    people = next(row for row in list_records(table) if row["who"] == PEOPLE)
    assert (people["kind"], people["published_agreement"], people["published_kappa"]) == ("simulated", 0.75, 0.526)
    assert table["notes"] == ["Published values for people are shown beside simulated raters."]
    assert f"<dd>{len(made)}</dd>" in page
    assert boss.get(reverse("ratings:paper_json"), {"replies": "scripted"}).json() == made


def assert_roles(client: Client) -> None:
    """Staff without a role in the studies see none of their numbers."""
    client.force_login(User.objects.create_user("ada", is_staff=True))
    found = {cell["cell"]: cell for cell in client.get(reverse("ratings:paper_json")).json()}
    assert found["rate-claude-unperturbed"]["ours"] is None
    assert "in a study in which you have no role" in found["rate-claude-unperturbed"]["reason"]
    assert found["fig5-gpt5-1"]["ours"] is not None


def test_paper_page_explains_how_to_start_before_a_replication_exists(boss: Client) -> None:
    page = boss.get(reverse("ratings:paper")).content.decode()
    assert "No replication yet" in page and "make paper MAX_COST=" in page


def test_plan_with_current_models_differs_from_the_papers_only_in_its_casts() -> None:
    store_laboratory()
    today, paper = load_plan(TODAY), load_plan()
    assert today.model_dump(exclude={"agents", "twin_maker"}) == paper.model_dump(exclude={"agents", "twin_maker"})
    casts = {row.name: row.data for row in CastDefinition.objects.filter(name__in=[*today.agents, today.twin_maker])}
    assert len(casts) == len(today.agents) + 1
    followed = {cast["successor_of"][cast["agent"]["model"]] for cast in casts.values()}
    assert followed == {"gpt-5", "claude-sonnet-4", "gemini-2.5-flash", "qwen3-235b-thinking", "deepseek-r1"}
    assert {cast["agent"]["scaffold"] for cast in casts.values()} == {"plain"}


def test_replication_with_api_keys_prints_the_maximum_cost_and_requires_a_cost_limit(
    plan: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "sk-none")
    with pytest.raises(CommandError, match="Nothing was started"):
        call_command("paper", plan=plan, threads=1)
    said = capsys.readouterr().out
    assert said.count("at most $") == 4 and ": paper: episodes" in said and "scripted" not in said
    assert not Run.objects.exists()


def test_replication_with_some_keys_lists_the_missing_ones(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with pytest.raises(CommandError, match="missing: ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY"):
        call_command("paper", plan=plan, threads=1)


def test_plan_file_with_wrong_keys_or_values_is_refused_with_all_problems(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({**load_plan().model_dump(), "attempts": 0, "agnets": []}))
    with pytest.raises(PlanFileError) as caught:
        load_plan(path)
    assert "attempts: Input should be greater than or equal to 1" in str(caught.value)
    assert "agnets: Extra inputs are not permitted" in str(caught.value)
    with pytest.raises(CommandError, match="agnets"):
        call_command("paper", plan=path)
