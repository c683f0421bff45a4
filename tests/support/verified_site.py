"""A small site with rows in every table that `verify` checks, made by the real code where that is quick."""

import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from ratings.blinding import payload_digest
from ratings.models import (
    Analysis,
    Assignment,
    Benchmark,
    BlindingAudit,
    ImportedItem,
    Item,
    MachineRater,
    MachineRating,
    Quarantine,
    Rating,
    Study,
)  # fmt: skip
from ratings.rating import next_item, submit
from ratings.results.analyses import store
from ratings.results.benchmarks import store as benchmark_store
from ratings.studies import access, lifecycle
from ratings.studies.blinding_audit import audit_runner
from simulation.calls import call_log, run_usage
from simulation.casts import load_files, run_config
from simulation.llm import prompt_sets
from simulation.models import Episode, Experiment, ModelCall, PromptSet, Run, Transition, Twin
from simulation.runs import create, vetting
from tests.support import call_factories, code_episodes, job_factories, study_factory
from tests.support.steps import run_to_end

SLUG = "caffeine-hplc-analysis"
LONG = "You plan experiments. " * 100  # long enough to be stored once and referred to


# tests/wetbench_site/upgrade also calls `furnish` of earlier releases, so it keeps its name and this module too.
def furnish() -> None:
    """Create episodes and twins played by rules, a rated study of them, and rows of all other tables."""
    load_files.load_lab(settings.FIXTURES_DIR)
    play_episodes()
    study = create_rated_study()
    create_stored_documents(study)
    create_calls()
    create_code_episodes()
    done = job_factories.create_job("study/small", "done")
    job_factories.create_job_file(done, "big.bin", b"x" * (300 * 1024))


def play_episodes() -> None:
    """Play one attempt and twins of its first steps. The second attempt replaces one that failed."""
    experiment = Experiment.objects.get(slug=SLUG)
    run = create.create_episode_run([experiment], "offline", 1, seed=11)
    run_to_end(run)
    first = Transition.objects.filter(episode__run=run, number__lte=6)
    run_to_end(create.create_twin_run(first, ["obvious", "subtle"], seed=3))
    vetting.accept_by_rule(Twin.objects.all())
    failed = Episode.objects.create(
        run=run, experiment=experiment, experiment_sha256=experiment.sha256, cast="offline", replicate=2, seed=2,
        initial=[], status="failed", reason="internal", error="broke", ended_at=timezone.now(), counts=False,
    )  # fmt: skip
    Episode.objects.create(
        run=run, experiment=experiment, experiment_sha256=experiment.sha256, cast="offline", replicate=2, seed=2,
        initial=[], retry_of=failed,
    )  # fmt: skip


def create_rated_study() -> Study:
    sources = [
        {"cast": "offline", "perturbation": perturbation, "count": 2} for perturbation in ("none", "obvious", "subtle")
    ]
    study = study_factory.create_open_study(sources=sources, slug="small", guide="Look well.")
    raters = study_factory.fill_all_rater_places(study)
    for rater in raters[:-1]:
        study_factory.rate_everything(rater)
    open_assignment = next_item.find_next_assignment(raters[-1])
    assert open_assignment is not None
    submit.save_unsaved_answer(open_assignment, submit.Answer(True, 4))
    last = Rating.objects.filter(assignment__rater=raters[0]).latest("submitted_at")
    submit.submit_rating(last.assignment, True, 5, uuid.uuid4(), revision=1, note="on second thoughts")
    add_initial_rating(Assignment.objects.filter(rating__isnull=False).exclude(pk=last.assignment_id).earliest("pk"))
    lifecycle.pause_study(study)
    for name in ("ann", "bea"):
        User.objects.create_user(name)
        access.add_member(study, name, "analyst")
    access.remove_member(study, study.members.get(user__username="bea"))
    return study


def add_initial_rating(assignment: Assignment) -> None:
    Assignment.objects.filter(pk=assignment.pk).update(layout="confirm")
    assignment.initial_rating = submit.InitialRating.objects.create(  # type: ignore[attr-defined]
        assignment=assignment, verdict=True, confidence=3, submission_id=uuid.uuid4(),
        at=assignment.rating.submitted_at - timedelta(seconds=5),
    )  # fmt: skip


def create_stored_documents(study: Study) -> None:
    document: Any = {"rate": 0.1, "n": 12}
    Analysis.objects.create(
        study=study, key="k", state_digest="m", version=1, seed=1, resamples=0, data_sha256="", n_ratings=1, document=document,
        sha256=store.hash_document(document),
    )  # fmt: skip
    report = {"passed": True, "checks": []}
    BlindingAudit.objects.create(study=study, passed=True, report=report, sha256=audit_runner.compute_digest(report))
    submitted = list(Episode.objects.filter(status="submitted"))
    benchmark = Benchmark.objects.create(name="b", sha256=benchmark_store.hash_episodes(submitted))
    benchmark.episodes.set(submitted)
    machine = MachineRater.objects.create(study=study, label="M1", cast="checker", name="checker")
    item = Item.objects.filter(study=study).earliest("pk")
    MachineRating.objects.create(rater=machine, item=item, verdict=True, payload_sha256=item.payload_sha256)
    payload_fields = {"payload": {"a": 1}, "payload_sha256": payload_digest({"a": 1})}
    Quarantine.objects.create(study=study, **payload_fields)
    ImportedItem.objects.create(study=study, key="x", record={}, label="file", perturbation="none", **payload_fields)


def create_code_episodes() -> None:
    """Create a graded code episode of two steps, the second in a sandbox, and a retry of one that failed."""
    graded = code_episodes.create_graded_episode()
    failed = code_episodes.create_code_episode(
        graded.mask, replicate=2, status="failed", reason="internal", error="broke", counts=False
    )
    code_episodes.create_code_episode(graded.mask, replicate=2, retry_of=failed)


def create_calls() -> None:
    """Create a run of language models with a budget: one failed call, and its second try with an answer."""
    files = {"agent.txt": LONG}
    prompts = PromptSet.objects.create(name="own", sha256=prompt_sets.compute_hash(files), files=files)
    setup = {**call_factories.build_run_config(), "prompt_set": {"name": prompts.name, "sha256": prompts.sha256}}
    run = call_factories.create_llm_run(setup=setup, setup_sha256=run_config.hash_config(setup))
    episode = call_factories.create_llm_episode(fence=1, lease_owner="elsewhere:1:x")
    Episode.objects.filter(pk=episode.pk).update(experiment=Experiment.objects.get(slug=SLUG))
    Experiment.objects.filter(slug="caffeine").delete()
    call_factories.create_failed_call(episode)
    call_factories.create_answered_call(episode, attempt=2, request=call_factories.build_request(system=LONG))
    Episode.objects.filter(pk=episode.pk).update(
        status="cancelled", ended_at=timezone.now(), next_number=1, phase="agent"
    )
    run_usage.recount_run(Run.objects.get(pk=run.pk))
    assert ModelCall.objects.count() == 2 and call_log.collect_hashes(ModelCall.objects.latest("pk").request)
    User.objects.create_user("nobody")
