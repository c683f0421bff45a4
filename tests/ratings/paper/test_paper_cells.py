"""Our numbers beside the paper's: the same classifiers, the newest result, successors; otherwise a reason."""

from itertools import combinations
from statistics import mean
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from ratings.models import Benchmark
from ratings.paper import comparison
from ratings.paper.comparison import ComparisonRow
from ratings.paper.plan import ReplicationNames
from ratings.results.benchmarks import benchmark_job, store
from ratings.stats.estimates import CONSENSUS, MAJORITY
from ratings.templatetags.result_tables import EMPTY_CELL, build_page_table
from simulation.lab.outcomes import Verdict
from simulation.models import Episode, EvidenceReview, MissingReview, Run
from tests.support import run_factory

pytestmark = pytest.mark.django_db
FIVE = ("claude-sonnet-4", "gemini-2.5-flash", "gpt-4o", "gpt-5", "qwen3-235b-thinking")
LEFT_OUT = "deepseek-r1"  # by the paper, from Fig. 4
NAMES = ReplicationNames(scripted=False)
# Verdicts of each classifier on six records, 1: sufficient. DeepSeek R1 contradicts all others.
SAID = {
    "gpt-5": (1, 1, 0, 0, 0, 0),
    "claude-sonnet-4": (1, 1, 1, 1, 0, 0),
    "gpt-4o": (1, 0, 1, 0, 0, 0),
    "gemini-2.5-flash": (1, 0, 0, 1, 0, 0),
    "qwen3-235b-thinking": (1, 1, 0, 0, 1, 0),
    LEFT_OUT: (0, 0, 0, 0, 1, 1),
}


def create_review(row: Episode, classifier: str, sufficient: int) -> None:
    EvidenceReview.objects.create(
        episode=row, classifier=classifier, primary=classifier == "gpt-5", sufficient=bool(sufficient),
        verdict=Verdict(bool(sufficient), "", 0.9).to_json(),
    )  # fmt: skip


def freeze_judged_benchmark(said: dict[str, tuple[int, ...]], agent: str = "gpt-5", **cast: Any) -> Benchmark:
    """Freeze a benchmark of six attempts of one agent, as these classifiers judged them, and compute it."""
    for at in range(6):
        row = run_factory.create_episode("caffeine" if at < 3 else "zebrafish", "paper", at % 3 + 1, "submitted")
        for classifier, verdicts in said.items():
            create_review(row, classifier, verdicts[at])
    Run.objects.update(setup={"cast": {"agent": {"model": agent}, **cast}})
    made = store.freeze_benchmark(NAMES.benchmark_name, list(Run.objects.all()))
    benchmark_job.compute_benchmark(made)
    return made


def build_rows_by_key() -> dict[str, ComparisonRow]:
    return {line.cell.cell: line for line in comparison.compare_numbers(comparison.find_results(NAMES))}


def test_comparison_computes_ensembles_and_extremes_from_the_papers_classifiers_only() -> None:
    benchmark, lines = freeze_judged_benchmark(SAID), build_rows_by_key()
    agreed = [mean(a == b for a, b in zip(SAID[x], SAID[y], strict=True)) for x, y in combinations(FIVE, 2)]
    assert lines["fig4-agreement-lowest"].cell.ours == pytest.approx(min(agreed))
    assert lines["fig4-agreement-highest"].cell.ours == pytest.approx(max(agreed))
    assert lines["fig4-agreement-highest"].cell.n == 10
    assert lines["fig4-conditional-gpt5-lowest"].cell.ours == 0.5
    assert lines["fig4-sufficient-consensus"].cell.ours == pytest.approx(1 / 6)  # none with DeepSeek R1
    assert lines["fig4-sufficient-majority"].cell.ours == pytest.approx(2 / 6)
    assert not any(LEFT_OUT in name for name in lines if name.startswith("fig4"))
    document = benchmark_job.compute_benchmark(benchmark).document
    of = {row[0]: row for row in document["tables"]["fractions"]["rows"]}
    told = "the paper's number is of other classifiers"
    assert of[CONSENSUS][2] == 0 and of[CONSENSUS][-2:] == [None, told]
    assert of["all of the paper's models"][-2:] == [0.111, ""]
    assert of["majority of the paper's models"][-2:] == [None, "printed only as a figure"] and MAJORITY in of
    assert of[LEFT_OUT][-2:] == [None, "the paper has no such number"]
    [note] = document["tables"]["agreement_matrix"]["notes"]
    assert note.startswith(
        "Published: 74.6% to 87.5% (n and interval not reported; section 5.2, Fig. 4 left), over gpt-5"
    )


def test_published_column_has_a_value_or_a_reason_in_every_cell() -> None:
    tables = benchmark_job.compute_benchmark(freeze_judged_benchmark(SAID)).document["tables"]
    for name in ("pass_at_k", "fractions"):
        shown = build_page_table(tables[name])
        at = next(i for i, head in enumerate(shown.heads) if head.title == "Published")
        assert EMPTY_CELL not in {row[at].text for row in shown.rows}
        assert not any(head.title == "No published value because" for head in shown.heads)
    texts = [row[-1].text for row in build_page_table(tables["pass_at_k"]).rows]
    assert "44.4%" in texts and "printed only as a figure" in texts


def test_comparison_states_a_reason_in_every_cell_of_a_classifier_without_verdicts() -> None:
    freeze_judged_benchmark({name: verdicts for name, verdicts in SAID.items() if name != "gpt-4o"})
    lines = build_rows_by_key()
    silent = "there are no verdicts of gpt-4o"
    for name in ("fig4-agreement-lowest", "fig4-sufficient-consensus", "fig4-conditional-gpt5-highest"):
        assert lines[name].cell.ours is None and silent in lines[name].cell.reason
        assert lines[name].cell.paper is not None
    pair = lines["fig4-agreement-gpt-4o-gpt-5"].cell
    assert pair.ours is None and pair.reason.endswith("ours: no verdicts of gpt-4o")
    assert lines["fig4-agreement-gpt-5-qwen3-235b-thinking"].cell.ours is not None


def test_comparison_marks_figures_as_stale_after_later_verdicts(boss: Client) -> None:
    benchmark = freeze_judged_benchmark({name: verdicts for name, verdicts in SAID.items() if name != LEFT_OUT})
    assert not comparison.find_results(NAMES).stale
    later = Episode.objects.order_by("pk")[:2]
    for row in later:
        MissingReview.objects.create(episode=row, classifier=LEFT_OUT, reason="refused", error="policy")
    parts = comparison.find_results(NAMES)
    assert (
        parts.stale == "then 0 verdicts of further classifiers were missing, now 2 are missing" and parts.n_missing == 2
    )
    page = boss.get(reverse("ratings:paper")).content.decode()
    assert "figures are stale" in page and parts.stale in page and "<svg" in page
    assert f"{LEFT_OUT} 2" in page and reverse("ratings:benchmark", args=[benchmark.code]) in page
    assert comparison.STALE in build_rows_by_key()["fig4-sufficient-gpt5"].cell.reason
    MissingReview.objects.all().delete()
    assert not comparison.find_results(NAMES).stale


def test_comparison_distinguishes_a_benchmark_not_computed_from_one_not_created() -> None:
    store.freeze_benchmark(NAMES.benchmark_name, [run_factory.create_episode("caffeine", "paper", 1, "quit").run])
    assert build_rows_by_key()["fig5-gpt5-1"].cell.reason == f"ours: {comparison.BENCHMARK_NOT_COMPUTED}"


def test_comparison_labels_a_successor_model_beside_the_value_of_its_predecessor(boss: Client) -> None:
    renamed = {"gpt-5": "gpt-6.1-sol", "claude-sonnet-4": "claude-sonnet-5.5"}
    said = {renamed.get(name, name): verdicts for name, verdicts in SAID.items() if name not in ("gpt-4o", LEFT_OUT)}
    freeze_judged_benchmark(said, "gpt-6.1-sol", successor_of={new: old for old, new in renamed.items()})
    lines = build_rows_by_key()
    line = lines["fig5-gpt5-1-successor-gpt-6.1-sol"]
    assert line.name == "pass@1, gpt-5 → gpt-6.1-sol, successor" and line.remark == "our number is for a successor"
    assert line.cell.paper == 0.444 and line.cell.n == 6
    assert "fig5-gpt5-1" not in lines
    assert lines["fig5-gpt4o-5"].cell.reason == "ours: no attempts of gpt-4o; no successor of gpt-4o was played either"
    assert lines["fig4-sufficient-gpt5-successor-gpt-6.1-sol"].cell.ours == pytest.approx(2 / 6)
    pair = lines["fig4-agreement-successors-claude-sonnet-5.5-gpt-6.1-sol"]
    assert pair.cell.ours == pytest.approx(4 / 6) and pair.remark == "our number is for successors"
    assert "no verdicts of gpt-4o" in lines["fig4-agreement-successors-lowest"].cell.reason
    assert "gpt-5 → gpt-6.1-sol, successor" in boss.get(reverse("ratings:paper")).content.decode()
