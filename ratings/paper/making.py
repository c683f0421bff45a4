"""Makes the replication step by step. Each step looks for what exists and makes the rest, so it can be interrupted anywhere."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings import demonstration
from ratings.models import EVIDENCE, TRANSITION, Benchmark, Study
from ratings.paper.plan import Names, Plan, StudyPlan, find_changes, find_problems
from ratings.protocol import PlanError
from ratings.raters import simulated
from ratings.results.analyses import playing, store
from ratings.results.analyses.filters import Filters
from ratings.results.benchmarks import freezing
from ratings.results.benchmarks import playing as benchmark_playing
from ratings.studies import StudyError, lifecycle
from simulation import scripted_server
from simulation.calls import spending
from simulation.casts import roster, setups
from simulation.engine import workers
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Perturbation
from simulation.models import CastDefinition, Experiment, PaperPlan, Run
from simulation.providers.base import PROVIDERS
from simulation.runs import accepted_steps, control, queueing, vetting

Say = Callable[[str], None]
Watch = Callable[[str], Callable[[queueing.RunProgress], None]]

PERTURBATIONS = (Perturbation.NONE, Perturbation.OBVIOUS, Perturbation.SUBTLE)
UNREAD = "Accepted unread by `manage.py paper`: nobody has looked at this twin"
SCRIPTED_NOTE = "Scripted replies of a local server: no language model was asked."


class PaperError(LabError):
    """The replication cannot go on; the message says what to do."""


class Cost(NamedTuple):
    """The most that a part can come to, in US dollars; None where a model has no price."""

    part: str
    worst: Decimal | None
    unpriced: list[str]


class Maker:
    """One replication. `max_cost`: US dollars that all its runs together may cost, None with scripted replies."""

    def __init__(
        self, plan: Plan, scripted: bool, say: Say, watch: Watch, threads: int, max_cost: Decimal | None
    ) -> None:
        self.plan, self.names, self.say, self.watch, self.threads = plan, Names(scripted), say, watch, threads
        self.max_cost = max_cost

    def make(self) -> None:
        """Play, plant errors, rate, unblind and analyse. PaperError where it cannot go on."""
        self.check()
        PaperPlan.objects.update_or_create(name=self.names.replication, defaults={"plan": self.plan.model_dump()})
        runs = [self._episodes(self.plan.agents[0])]
        self._check_samples(runs[0])  # before the others cost anything
        runs += [self._episodes(agent) for agent in self.plan.agents[1:]]
        for error in PERTURBATIONS:
            self._accept(self._twins(runs[0], error))
        self._benchmark(runs)
        self._study(self.names.transitions, self._transitions)
        self._study(self.names.evidence, self._evidence)

    def check(self) -> None:
        """Refuse a plan that cannot be made here, or differs from what was made already. PaperError says in what."""
        problems = list(find_problems(self.plan, len(list(self._experiments()))))
        problems += [problem for name in dict.fromkeys(self.plan.agents) for problem in _check_cast("agents", name)]
        problems += _check_cast("twin_maker", self.plan.twin_maker)
        if problems:
            raise PaperError("The plan cannot be made:\n" + "\n".join(problems))
        before = PaperPlan.objects.filter(name=self.names.replication).first()
        if before and (changes := find_changes(before.plan, self.plan, self._fixed())):
            raise PaperError(
                f"This replication was begun with another plan: {'; '.join(changes)}. Go on with the plan that it was begun "
                "with; for another replication start with an empty data folder (WETBENCH_VAR_DIR)"
            )

    def _fixed(self) -> list[str]:
        """Return the parts of the plan that something has been made of."""
        made = {run.kind for run in self._runs()}
        fixed = ["agents", "experiments", "attempts", "seed"] if made else []
        fixed += ["twin_maker", "sample"] if "twins" in made else []
        for part, slug in (("transitions", self.names.transitions), ("evidence", self.names.evidence)):
            fixed += [part, "simulated_raters"] if Study.objects.filter(slug=slug).exists() else []
        return list(dict.fromkeys(fixed))

    def _check_samples(self, run: Run) -> None:
        """Raise PaperError where the steps of the run are too few for the samples, which do not overlap."""
        have = accepted_steps(self._experiments()).filter(episode__run=run).count()
        samples, sample = len(PERTURBATIONS), self.plan.sample
        if have < samples * sample:
            raise PaperError(
                f"sample: {samples} samples of {sample} steps that do not overlap need {samples * sample} accepted steps, and "
                f"{run.cast} took {have}. Make sample smaller (and transitions.items); the same command goes on"
            )

    def find_retired(self) -> list[roster.Retired]:
        """Return the models of this replication that their providers have switched off."""
        return roster.find_retired(self.names.cast(name) for name in [*self.plan.agents, self.plan.twin_maker])

    def costs(self) -> list[Cost]:
        """Return the worst case of every run, before any is ordered."""
        found, experiments = [], list(self._experiments())
        for name in self.plan.agents:
            worst = spending.estimate(roster.setup(self.names.cast(name)), experiments, self.plan.attempts)
            found.append(Cost(f"{self.names.cast(name)}: episodes", worst.cost, worst.unpriced))
        maker = self.names.cast(self.plan.twin_maker)
        worst = spending.estimate_twins(roster.setup(maker), len(PERTURBATIONS) * self.plan.sample)
        return [*found, Cost(f"{maker}: twins", worst.cost, worst.unpriced)]

    def _experiments(self) -> Iterator[Experiment]:
        wanted = self.plan.experiments
        rows = Experiment.objects.all() if wanted == "all" else Experiment.objects.filter(slug__in=wanted)
        if isinstance(wanted, list) and (lost := sorted(set(wanted) - {row.slug for row in rows})):
            raise PaperError(f"There is no experiment {', '.join(lost)}")
        yield from rows

    def _episodes(self, agent: str) -> Run:
        cast = self.names.cast(agent)
        with transaction.atomic():
            run = queueing.queue_episodes(
                self._experiments(), cast, self.plan.attempts, self.plan.seed, submission_id=self.names.submission(agent),
                **self._limits(),
            )  # fmt: skip
            self._leave(run)
        self._play(run, f"Playing {cast}")
        return run

    def _twins(self, run: Run, error: Perturbation) -> Run:
        """Make the twins of one error type, or GPT-5's own answers, of a sample of steps that have no twin by it yet.

        Samples do not overlap: a rater sees one version of a step only, so that several versions of one would need more raters.
        """
        maker = self.names.cast(self.plan.twin_maker)
        steps = accepted_steps(self._experiments()).filter(episode__run=run).exclude(twins__cast=maker)
        with transaction.atomic():
            made = queueing.queue_twins(
                steps, [error], maker, 1, self.plan.seed, None, self.names.submission(f"twins-{error}"), self.plan.sample,
                **self._limits(),
            )  # fmt: skip
            self._leave(made)
        self._play(made, f"Making {'answers' if error == Perturbation.NONE else f'{error} twins'} by {maker}")
        return made

    def _play(self, run: Run, what: str) -> None:
        """Play a run to its end here. PaperError where rows are held for money, a key or a refused request."""
        now = queueing.progress(run)
        if not now.finished or now.by_status.get("blocked"):
            self._go_on(run)
            try:
                now = workers.play_run(run, self.threads, self.watch(what))
            finally:
                self._leave(run)
        if held := now.by_status.get("blocked", 0):
            raise PaperError(f"{what}: {held} of {now.total} are held ({self._why_held(run)}")

    def _why_held(self, run: Run) -> str:
        """Return why rows of the run are held, and what to do about it."""
        found = [trouble for trouble in queueing.troubles(run) if trouble.status == "blocked"]
        reasons = "; ".join(sorted({trouble.error for trouble in found})[:3])
        if self.max_cost is None or all(trouble.reason != "budget" for trouble in found):
            return f"{reasons}). Mend it and run `make paper` again"
        return (
            f"{reasons}). MAX_COST={self.max_cost:f} is used up: ${self._used():,.2f} are spent or reserved for calls whose cost "
            "nobody knows. The same command with a larger MAX_COST goes on"
        )

    def _go_on(self, run: Run) -> None:
        """Release what an earlier start left held, under what is left of the money now."""
        if self.max_cost is not None:
            control.continue_run(run, max_cost=self._left(besides=run))
        control.try_again(run)
        control.resume_run(run)

    def _leave(self, run: Run) -> None:
        """Pause what is not ended and only this command can play, so that no worker holds it."""
        if self.names.scripted and not queueing.progress(run).finished:
            control.pause_run(run)

    def _limits(self) -> queueing.Terms:
        return {} if self.max_cost is None else {"max_cost": self._left()}

    def _left(self, besides: Run | None = None) -> Decimal:
        """Return the money that all runs, or all but one, leave of the limit."""
        assert self.max_cost is not None
        return max(self.max_cost - self._used(besides), Decimal(0))

    def _used(self, besides: Run | None = None) -> Decimal:
        """Return what the runs have cost, a call of unknown cost at its worst case, as budgets count it (docs/models.md)."""
        runs = [run for run in self._runs() if besides is None or run.pk != besides.pk]
        return sum((spending.verify(run).ledger_cost for run in runs), start=Decimal(0))

    def _runs(self) -> list[Run]:
        return list(Run.objects.filter(submission_id__startswith=self.names.submission("")))

    def _accept(self, run: Run) -> None:
        """Accept the twins that nobody has looked at, on record as accepted unread."""
        if accepted := vetting.accept_unread(run.twins.all(), UNREAD):
            self.say(
                f"Accepted {accepted} twins unread; that is on record with each, and they wait in the vetting queue"
            )

    def _benchmark(self, runs: list[Run]) -> None:
        name = self.names.benchmark
        made = Benchmark.objects.filter(name=name).first()
        if made is None:
            note = SCRIPTED_NOTE if self.names.scripted else ""
            made = freezing.freeze(name, runs, demonstration.administrator(), note)
        self.say("Comparing the agents")
        benchmark_playing.compute(made)

    def _study(self, slug: str, protocol: Callable[[StudyPlan], Mapping[str, Any]]) -> None:
        admin, plan = demonstration.administrator(), self._plan_of(slug)
        study = Study.objects.filter(slug=slug).first() or self._open({**protocol(plan), "slug": slug}, admin)
        if study.is_open:
            self.say(f"Simulated raters rate {study.name}")
            own = self.plan.simulated_raters
            simulated.simulate_raters(
                study, plan.raters, own.sensitivity_obvious, own.sensitivity_subtle, own.specificity,
                agreement=own.agreement, located=own.located, seed=self.plan.seed,
            )  # fmt: skip
        lifecycle.close_and_unblind(study, by=admin)
        study.refresh_from_db()
        self.say(f"Analysing {study.name}")
        playing.draw(store.compute(study, Filters()))

    def _plan_of(self, slug: str) -> StudyPlan:
        return self.plan.transitions if slug == self.names.transitions else self.plan.evidence

    @staticmethod
    @transaction.atomic
    def _open(protocol: Mapping[str, Any], admin: User) -> Study:
        """Open a study. PaperError where the pool holds too little for it."""
        study = lifecycle.create_study(lifecycle.read_protocol(protocol), by=admin)
        try:
            lifecycle.open_study(study, by=admin)
        except (PlanError, StudyError) as error:
            told = f"{study.slug}: {error}. With fewer items in the plan the same command goes on"
            raise PaperError(told) from error
        study.refresh_from_db()
        return study

    def _transitions(self, plan: StudyPlan) -> Mapping[str, Any]:
        """Claude's steps of the first agent, GPT-5's answers to such steps, and GPT-5's errors of both types."""
        maker = self.names.cast(self.plan.twin_maker)
        wanted = [(self.names.cast(self.plan.agents[0]), "none"), *((maker, error) for error in PERTURBATIONS)]
        return self._protocol(self.names.title("Paper: are the steps plausible?"), TRANSITION, wanted, plan)

    def _evidence(self, plan: StudyPlan) -> Mapping[str, Any]:
        wanted = [(self.names.cast(agent), "none") for agent in self.plan.agents]
        return self._protocol(self.names.title("Paper: is the evidence sufficient?"), EVIDENCE, wanted, plan)

    def _protocol(self, name: str, kind: str, wanted: list[tuple[str, str]], plan: StudyPlan) -> dict[str, Any]:
        sources = [{"cast": cast, "perturbation": str(error), "count": plan.items} for cast, error in wanted]
        return {
            "name": name, "kind": kind, "sources": sources, "experiments": self.plan.experiments,
            "ratings_per_item": plan.ratings_per_item, "raters": plan.raters, "seed": self.plan.seed,
        }  # fmt: skip


def _check_cast(place: str, name: str) -> Iterator[str]:
    row = CastDefinition.objects.filter(name=name).first()
    if row is None:
        yield f"{place}: there is no cast {name!r} with language models"
    elif "model" not in row.data["transition_model"]:
        yield f"{place}: the transition model of {name!r} is no language model"


@contextmanager
def scripted_replies(plan: Plan) -> Iterator[None]:
    """Start the scripted server, send every provider's calls of this process to it, and name casts after it.

    PaperError while workers of other processes are alive: they cannot play such runs (journal.dial) and would hold them.
    """
    if queueing.workers_alive():
        raise PaperError("Stop the workers first: they do not know the server with the scripted replies")
    names = Names(scripted=True)
    for name in [*plan.agents, plan.twin_maker]:
        row = CastDefinition.objects.filter(name=name).first()
        if row is None:
            raise PaperError(
                f"There is no cast {name!r} with language models: run `python manage.py load_models fixtures/casts.json`"
            )
        told = {"name": names.cast(name), "description": f"{row.description} {SCRIPTED_NOTE}", "scripted": True}
        CastDefinition.objects.update_or_create(
            name=told["name"], defaults={"description": told["description"], "data": {**row.data, **told}}
        )
    with scripted_server.spawned() as server:
        own = {**server.environ(), setups.SCRIPTED_VARIABLE: server.url}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def missing_keys(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the environment variables of keys that the plan's casts need, and those of them that are not set."""
    needed = set()
    for name in [*plan.agents, plan.twin_maker]:
        for model in roster.setup(name).get("models", {}).values():
            info = PROVIDERS[model["provider"]]
            if info.needs_key:
                needed.add(info.key_variable)
    return sorted(needed), sorted(name for name in needed if not os.environ.get(name))
