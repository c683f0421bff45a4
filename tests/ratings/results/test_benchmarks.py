"""Benchmarks: frozen runs, comparisons of agents, causes of failures, and the pages."""

import csv
import hashlib
import io
import json
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ratings.models import Benchmark, Study
from ratings.results.benchmarks import benchmark_job, document, store
from ratings.results.benchmarks.store import BenchmarkError
from ratings.studies import lifecycle
from simulation.lab.outcomes import Verdict
from simulation.models import Episode, EvidenceReview, Job, MissingReview, Run, Transition
from tests.support import run_factory, study_factory
from tests.support.call_factories import create_answered_call

pytestmark = pytest.mark.django_db


def create_episode(slug: str, cast: str, replicate: int, sufficient: bool | None, status: str = "submitted") -> Episode:
    """Create an episode with this end. `sufficient` is the verdict of its own classifier on what was submitted."""
    row = run_factory.create_episode(slug, cast, replicate, status)
    if sufficient is not None:
        create_review(row, "first", sufficient)
    return row


def create_review(row: Episode, classifier: str, sufficient: bool, primary: bool = True) -> None:
    verdict = Verdict(sufficient, "", 0.9).to_json()
    EvidenceReview.objects.create(
        episode=row, classifier=classifier, primary=primary, sufficient=sufficient, verdict=verdict
    )


def create_runs() -> list[Run]:
    """Agent a: 2 of 3 on caffeine, 1 of 2 on zebrafish and one episode that failed; agent b: 0 of 3 and 2 of 3."""
    for replicate, sufficient in enumerate((True, True, False), 1):
        create_episode("caffeine", "a", replicate, sufficient)
    create_episode("zebrafish", "a", 1, True)
    create_episode("zebrafish", "a", 2, None, "quit")
    create_episode("zebrafish", "a", 3, None, "failed")
    for replicate in (1, 2, 3):
        create_episode("caffeine", "b", replicate, None, "truncated")
        create_episode("zebrafish", "b", replicate, replicate > 1)
    return list(Run.objects.all())


def freeze_two_agents() -> tuple[Benchmark, dict[str, Any]]:
    benchmark = store.freeze_benchmark("Two agents", create_runs())
    return benchmark, document.build_document(benchmark, document.load_results(benchmark), resamples=200)


def list_rows(made: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table = made["tables"][name]
    return [dict(zip([c["name"] for c in table["columns"]], row, strict=True)) for row in table["rows"]]


def test_benchmark_counts_missing_verdicts_and_is_recomputed_once_one_is_given(boss: Client) -> None:
    benchmark = store.freeze_benchmark("Two agents", create_runs())
    rows_of = list(Episode.objects.filter(status="submitted").order_by("pk")[:3])
    for row, classifier in zip(rows_of, ("gemini", "gemini", "qwen"), strict=True):
        MissingReview.objects.create(episode=row, classifier=classifier, reason="refused", error="policy")
    made = benchmark_job.compute_benchmark(benchmark)
    assert made.document["data"]["missing_verdicts"] == 3
    [note] = [note for note in made.document["notes"] if "missing" in note]
    assert (
        note
        == "3 verdicts of further classifiers are missing (gemini 2, qwen 1); the records are counted without them."
    )
    page = boss.get(f"/benchmarks/{benchmark.code}/").content.decode()
    assert "Missing verdicts" in page and "gemini 2, qwen 1" in page
    shown = boss.get(f"/runs/{rows_of[0].run.code}/").content.decode()
    count = MissingReview.objects.filter(episode__run=rows_of[0].run).count()
    assert f"{count} panel verdict{'s' if count > 1 else ''} missing" in shown and "gemini" in shown
    MissingReview.objects.filter(classifier="qwen").delete()
    create_review(rows_of[2], "qwen", True, primary=False)
    assert benchmark_job.compute_benchmark(benchmark).document["data"]["missing_verdicts"] == 2


def test_pass_at_k_is_the_mean_over_experiments_and_undefined_with_too_few_attempts() -> None:
    _, made = freeze_two_agents()
    found = {(row["agent"], row["k"]): row for row in list_rows(made, "pass_at_k")}
    # a: (2/3 + 1/2) / 2 = 7/12; within two: (1 - C(1,2)/C(3,2) + 1 - C(1,2)/C(2,2)) / 2 = 1
    assert found["a", 1]["value"] == pytest.approx(7 / 12)
    assert found["a", 2]["value"] == 1
    assert found["a", 3]["value"] is None
    assert found["a", 3]["reason"] == "1 of 2 experiments have fewer than 3 replicates; the smallest number is 2"
    # b: (0 + 2/3) / 2 = 1/3; within two (0 + 1 - C(1,2)/C(3,2)) / 2 = 1/2
    assert found["b", 1]["value"] == pytest.approx(1 / 3)
    assert found["b", 2]["value"] == pytest.approx(1 / 2)
    assert found["a", 1]["attempts"] == 5  # the failed episode is not an attempt


def test_pass_at_k_is_undefined_with_an_experiment_without_attempts() -> None:
    create_episode("caffeine", "a", 1, True)
    create_episode("zebrafish", "a", 1, None, "failed")
    for slug in ("caffeine", "zebrafish"):
        create_episode(slug, "b", 1, False)
    benchmark = store.freeze_benchmark("One is missing", list(Run.objects.all()))
    made = document.build_document(benchmark, document.load_results(benchmark), resamples=0)
    found = {(row["agent"], row["k"]): row for row in list_rows(made, "pass_at_k")}
    one = found["a", 1]
    assert (one["value"], one["tasks"], one["attempts"]) == (None, 2, 1)
    assert one["reason"] == "1 of 2 experiments have no replicate"
    assert (found["b", 1]["value"], found["b", 1]["tasks"]) == (0, 2)
    tasks = {(row["experiment"], row["agent"]): (row["n"], row["successes"]) for row in list_rows(made, "tasks")}
    assert sorted(tasks.values()) == [(0, 0), (1, 0), (1, 0), (1, 1)]
    # compared at one attempt, on the one experiment that both have: 1 - 0
    (difference,) = list_rows(made, "comparisons")
    assert (difference["k"], difference["difference"], difference["tasks"]) == (1, 1, 1)


def test_benchmark_failures_are_listed_by_cause() -> None:
    _, made = freeze_two_agents()
    found = {(row["agent"], row["cause"]): row["n"] for row in list_rows(made, "failures")}
    assert found == {
        ("a", "success"): 3, ("a", "evidence"): 1, ("a", "agent"): 1, ("a", "wetbench"): 1,
        ("b", "success"): 2, ("b", "evidence"): 1, ("b", "agent"): 3,
    }  # fmt: skip


def test_benchmark_compares_agents_at_one_attempt_and_at_the_most_attempts_both_have() -> None:
    _, made = freeze_two_agents()
    one, two = list_rows(made, "comparisons")
    # d: caffeine 2/3 - 0, zebrafish 1/2 - 2/3; mean (2/3 - 1/6) / 2 = 1/4
    assert (one["first"], one["second"], one["k"]) == ("a", "b", 1)
    assert one["difference"] == pytest.approx(1 / 4)
    assert one["p"] is None and "5 experiments" in one["reason"]
    # at two attempts: caffeine 1 - 0, zebrafish 1 - 1 = 0
    assert (two["k"], two["difference"]) == (2, pytest.approx(1 / 2))


def test_benchmark_compares_classifiers_on_the_same_records() -> None:
    for replicate, (first, second) in enumerate([(True, True), (True, False), (False, False), (False, False)], 1):
        row = create_episode("caffeine", "a", replicate, first)
        create_review(row, "second", second, primary=False)
    benchmark = store.freeze_benchmark("Panel", list(Run.objects.all()))
    made = document.build_document(benchmark, document.load_results(benchmark), resamples=0)
    agreement = {(row["row"], row["col"]): row["value"] for row in list_rows(made, "agreement_matrix")}
    conditional = {
        (row["row"], row["col"]): (row["value"], row["base"]) for row in list_rows(made, "conditional_matrix")
    }
    assert agreement["first", "second"] == pytest.approx(3 / 4)
    assert conditional["first", "second"] == (pytest.approx(1 / 2), 2)
    assert conditional["second", "first"] == (1, 1)
    shares = {row["who"]: (row["k"], row["n"]) for row in list_rows(made, "fractions")}
    # of two classifiers a majority is both: the tie of the second record counts as not sufficient, and a note says so
    assert shares == {"first": (2, 4), "second": (1, 4), "majority of the models": (1, 4), "all models": (1, 4)}
    assert any(note.startswith("1 records without a majority") for note in made["notes"])


def test_benchmark_cost_per_success_comes_from_the_call_log() -> None:
    row = create_episode("caffeine", "a", 1, True)
    create_episode("caffeine", "a", 2, False)
    create_answered_call(row, cost=Decimal("0.5"), input_uncached=100, output=20)
    create_answered_call(row, number=2, cost=None, input_uncached=10, output=2, state="answered")
    benchmark = store.freeze_benchmark("Cost", list(Run.objects.all()))
    (cost,) = list_rows(document.build_document(benchmark, document.load_results(benchmark), resamples=0), "cost")
    assert (cost["episodes"], cost["calls"], cost["input_tokens"], cost["output_tokens"]) == (2, 2, 110, 22)
    assert (cost["cost"], cost["per_success"], cost["unknown"]) == (0.5, 0.5, 1)


def test_benchmark_document_has_the_same_bytes_for_the_same_episodes() -> None:
    benchmark, made = freeze_two_agents()
    again = document.build_document(benchmark, document.load_results(benchmark), resamples=200)
    assert json.dumps(made, allow_nan=False) == json.dumps(again, allow_nan=False)


def test_benchmark_document_names_its_benchmark_and_explains_its_intervals() -> None:
    benchmark = store.freeze_benchmark("Two agents", create_runs(), note=" Why we ask ")
    made = document.build_document(benchmark, document.load_results(benchmark), resamples=200)
    assert made["subject"] == {"benchmark": str(benchmark.code), "name": "Two agents", "note": "Why we ask"}
    assert any(note.startswith("Differences have intervals and p-values from 200 resamples") for note in made["notes"])
    assert any("which treats the records as independent" in note for note in made["notes"])


def test_frozen_benchmark_does_not_change_with_later_runs() -> None:
    benchmark, made = freeze_two_agents()
    create_episode("caffeine", "a", 4, True)
    assert document.build_document(benchmark, document.load_results(benchmark), resamples=200) == made


def test_benchmark_freeze_lists_all_problems_at_once() -> None:
    create_episode("caffeine", "a", 1, True)
    run_factory.create_episode("caffeine", "b", 1, "running")
    Run.objects.filter(cast="a").update(manifest=True)
    with pytest.raises(BenchmarkError) as refused:
        store.freeze_benchmark(" ", list(Run.objects.all()))
    assert len(refused.value.problems) == 3
    assert (
        "1 to 120" in str(refused.value)
        and "are running or blocked" in str(refused.value)
        and "materials" in str(refused.value)
    )
    assert not Benchmark.objects.exists()


def test_benchmark_refuses_practice() -> None:
    create_episode("caffeine", "human ABCDEF", 1, True)
    Run.objects.update(practice=True)
    with pytest.raises(BenchmarkError, match="it is practice, in which rejected actions cost no step"):
        store.freeze_benchmark("People", list(Run.objects.all()))


def test_benchmark_refuses_two_versions_of_an_experiment() -> None:
    create_episode("caffeine", "a", 1, True)
    Episode.objects.filter(pk=create_episode("caffeine", "b", 1, True).pk).update(experiment_sha256="1" * 64)
    with pytest.raises(BenchmarkError, match="Caffeine was changed between these runs"):
        store.freeze_benchmark("Two versions", list(Run.objects.all()))


def sign_in_staff() -> Client:
    client = Client()
    client.force_login(User.objects.create_user("staff", is_staff=True))
    return client


def test_benchmark_page_freezes_and_compares_selected_runs(django_assert_max_num_queries: Any) -> None:
    runs, client = create_runs(), sign_in_staff()
    assert b"No benchmark yet" in client.get("/benchmarks/").content
    refused = client.post("/benchmarks/new/", {"name": "Two", "note": "why"})
    assert refused.status_code == 422 and b"Choose at least one run" in refused.content and b"why" in refused.content

    made = client.post("/benchmarks/new/", {"name": "Two", "note": "", "run": [str(run.code) for run in runs]})
    assert made.status_code == 302
    page = client.get(made["Location"])
    assert b"being computed" in page.content

    benchmark_job.compute_benchmark(Benchmark.objects.get())
    with django_assert_max_num_queries(16):
        page = client.get(made["Location"])
    assert b"Goals reached within k attempts" in page.content
    lines = client.get(f"{made['Location']}tables/pass_at_k.csv").content.decode("utf-8-sig").splitlines()
    assert lines[0].startswith('"agent","k","value","low","high","tasks"') and len(lines) == 11
    assert client.get(f"{made['Location']}tables/nothing.csv").status_code == 404
    assert client.get(f"{made['Location']}results.json").json()["data"]["attempts"] == 11


def test_benchmark_files_have_numbers_in_full_precision_and_bytes_that_match_the_stored_hash() -> None:
    benchmark, client = store.freeze_benchmark("Two agents", create_runs(), note="α > β"), sign_in_staff()
    made = benchmark_job.compute_benchmark(benchmark)
    answer = client.get(f"/benchmarks/{benchmark.code}/results.json")
    assert hashlib.sha256(answer.content).hexdigest() == made.sha256 == answer["ETag"].strip('"')
    answer = client.get(f"/benchmarks/{benchmark.code}/tables/pass_at_k.csv")
    assert f'filename="benchmark-{benchmark.code}-pass-at-k.csv"' in answer["Content-Disposition"]
    first = next(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert (first["agent"], first["k"], float(first["value"])) == (
        "a",
        "1",
        list_rows(made.document, "pass_at_k")[0]["value"],
    )


def test_benchmark_files_return_the_job_until_they_are_computed() -> None:
    benchmark, client = store.freeze_benchmark("Two agents", create_runs()), sign_in_staff()
    for file in ("results.json", "tables/tasks.csv"):
        answer = client.get(f"/benchmarks/{benchmark.code}/{file}")
        job = Job.objects.get()
        assert answer.status_code == 202 and job.asked_by == User.objects.get(username="staff")
        assert answer.json() == {
            "status": "queued",
            "said": "The comparison is being computed.",
            "job": f"/jobs/{job.code}/",
        }
    assert client.get(f"/benchmarks/{benchmark.code}/tables/nothing.csv").status_code == 404
    Job.objects.update(status="failed", error="It broke.", ended_at=timezone.now())
    answer = client.get(f"/benchmarks/{benchmark.code}/results.json")
    assert (answer.status_code, answer.json()["status"]) == (202, "failed")
    assert answer.json()["said"] == "The comparison could not be computed."
    page = client.get(f"/benchmarks/{benchmark.code}/").content
    assert b"The comparison could not be computed." in page and b"when it is done" not in page


def test_benchmark_page_lists_only_unblinded_studies_of_the_user() -> None:
    run_factory.create_pool()
    study_factory.create_open_study(name="Sealed and foreign")
    benchmark = store.freeze_benchmark("One", [Transition.objects.all()[0].episode.run])
    benchmark_job.compute_benchmark(benchmark)
    client, root = sign_in_staff(), Client()
    boss = User.objects.create_superuser("root")
    root.force_login(boss)
    address = f"/benchmarks/{benchmark.code}/"
    assert [study.name for study in store.find_studies(benchmark)] == ["Sealed and foreign"]
    for reader in (client, root):  # nobody sees which runs a sealed study drew from
        assert b"Sealed and foreign" not in reader.get(address).content
    lifecycle.close_and_unblind(Study.objects.get(), boss)
    assert b"Sealed and foreign" in root.get(address).content
    assert b"Sealed and foreign" not in client.get(address).content
