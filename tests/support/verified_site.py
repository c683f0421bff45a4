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
from ratings.rating import answering, serving
from ratings.results.analyses import form
from ratings.results.benchmarks import freezing
from ratings.studies import lifecycle, members
from ratings.studies.blinding_audit import auditing
from simulation.calls import shelf, spending
from simulation.casts import fixtures, setups
from simulation.llm.prompts import prompt_sets
from simulation.models import Episode, Experiment, ModelCall, PromptSet, Run, Transition, Twin
from simulation.runs import queueing, vetting
from tests.support import call_factories, job_factories, study_factory
from tests.support.steps import play_out

SLUG = "caffeine-hplc-analysis"
LONG = "You plan experiments. " * 100  # long enough to be stored once and referred to


# tests/wetbench_site/upgrade also calls `furnish` of earlier releases, so it keeps its name and this module too.
def furnish() -> None:
    """Create episodes and twins played by rules, a rated study of them, and rows of all other tables."""
    fixtures.load_lab(settings.FIXTURES_DIR)
    play()
    study = rated_study()
    stored_documents(study)
    calls()
    done = job_factories.job("study/small", "done")
    job_factories.file(done, "big.bin", b"x" * (300 * 1024))


def play() -> None:
    """Play one attempt and twins of its first steps. The second attempt replaces one that failed."""
    experiment = Experiment.objects.get(slug=SLUG)
    run = queueing.queue_episodes([experiment], "offline", 1, seed=11)
    play_out(run)
    first = Transition.objects.filter(episode__run=run, number__lte=6)
    play_out(queueing.queue_twins(first, ["obvious", "subtle"], seed=3))
    vetting.accept_by_rule(Twin.objects.all())
    failed = Episode.objects.create(
        run=run, experiment=experiment, experiment_sha256=experiment.sha256, cast="offline", replicate=2, seed=2,
        initial=[], status="failed", reason="internal", error="broke", ended_at=timezone.now(), counts=False,
    )  # fmt: skip
    Episode.objects.create(
        run=run, experiment=experiment, experiment_sha256=experiment.sha256, cast="offline", replicate=2, seed=2,
        initial=[], retry_of=failed,
    )  # fmt: skip


def rated_study() -> Study:
    sources = [
        {"cast": "offline", "perturbation": perturbation, "count": 2} for perturbation in ("none", "obvious", "subtle")
    ]
    study = study_factory.open_study(sources=sources, slug="small", guide="Look well.")
    raters = study_factory.seat_all(study)
    for rater in raters[:-1]:
        study_factory.rate_all(rater)
    open_assignment = serving.next_assignment(raters[-1])
    assert open_assignment is not None
    answering.save_draft(open_assignment, answering.Answer(True, 4))
    last = Rating.objects.filter(assignment__rater=raters[0]).latest("submitted_at")
    answering.rate(last.assignment, True, 5, uuid.uuid4(), revision=1, note="on second thoughts")
    first_look(Assignment.objects.filter(rating__isnull=False).exclude(pk=last.assignment_id).earliest("pk"))
    lifecycle.pause(study)
    for name in ("ann", "bea"):
        User.objects.create_user(name)
        members.add(study, name, "analyst")
    members.remove(study, study.members.get(user__username="bea"))
    return study


def first_look(place: Assignment) -> None:
    Assignment.objects.filter(pk=place.pk).update(layout="confirm")
    place.first_look = answering.FirstLook.objects.create(  # type: ignore[attr-defined]
        assignment=place, verdict=True, confidence=3, submission_id=uuid.uuid4(),
        at=place.rating.submitted_at - timedelta(seconds=5),
    )  # fmt: skip


def stored_documents(study: Study) -> None:
    document: Any = {"rate": 0.1, "n": 12}
    Analysis.objects.create(
        study=study, key="k", mark="m", version=1, seed=1, resamples=0, data_sha256="", n_ratings=1, document=document,
        sha256=form.digest(document),
    )  # fmt: skip
    report = {"passed": True, "checks": []}
    BlindingAudit.objects.create(study=study, passed=True, report=report, sha256=auditing.digest(report))
    submitted = list(Episode.objects.filter(status="submitted"))
    benchmark = Benchmark.objects.create(name="b", sha256=freezing.digest(submitted))
    benchmark.episodes.set(submitted)
    machine = MachineRater.objects.create(study=study, label="M1", cast="checker", name="checker")
    item = Item.objects.filter(study=study).earliest("pk")
    MachineRating.objects.create(rater=machine, item=item, verdict=True, payload_sha256=item.payload_sha256)
    payload_fields = {"payload": {"a": 1}, "payload_sha256": payload_digest({"a": 1})}
    Quarantine.objects.create(study=study, **payload_fields)
    ImportedItem.objects.create(study=study, key="x", record={}, label="file", perturbation="none", **payload_fields)


def calls() -> None:
    """Create a run of language models with a budget: one failed call, and its second try with an answer."""
    files = {"agent.txt": LONG}
    prompts = PromptSet.objects.create(name="own", sha256=prompt_sets.content_hash(files), files=files)
    setup = {**call_factories.setup(), "prompt_set": {"name": prompts.name, "sha256": prompts.sha256}}
    run = call_factories.run(setup=setup, setup_sha256=setups.digest(setup))
    episode = call_factories.episode(fence=1, lease_owner="elsewhere:1:x")
    Episode.objects.filter(pk=episode.pk).update(experiment=Experiment.objects.get(slug=SLUG))
    Experiment.objects.filter(slug="caffeine").delete()
    call_factories.failed_call(episode)
    call_factories.call(episode, attempt=2, request=call_factories.request(system=LONG))
    Episode.objects.filter(pk=episode.pk).update(
        status="cancelled", ended_at=timezone.now(), next_number=1, phase="agent"
    )
    spending.recount(Run.objects.get(pk=run.pk))
    assert ModelCall.objects.count() == 2 and shelf.hashes(ModelCall.objects.latest("pk").request)
    User.objects.create_user("nobody")
