"""Create the replication step by step. Each step looks for what exists and creates the rest, so the command can be interrupted."""

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
UNREAD = "Accepted unread by `manage.py paper`: nobody has reviewed this twin"
SCRIPTED_NOTE = "Scripted replies of a local server: no language model was called."


class PaperError(LabError):
    """The replication cannot continue. The message says what to do."""


class Cost(NamedTuple):
    """The maximum cost of a part in US dollars, or None if a model has no price."""

    part: str
    worst: Decimal | None
    unpriced: list[str]


class Maker:
    """One replication. `max_cost`: US dollars that all its runs together may cost; None with scripted replies."""

    def __init__(
        self, plan: Plan, scripted: bool, say: Say, watch: Watch, threads: int, max_cost: Decimal | None
    ) -> None:
        self.plan, self.names, self.say, self.watch, self.threads = plan, Names(scripted), say, watch, threads
        self.max_cost = max_cost

    def make(self) -> None:
        """Play, plant errors, rate, unblind and analyse. Raises PaperError if it cannot continue."""
        self.check()
        # Stored before anything is created, for the comparison when the command is run again.
        PaperPlan.objects.update_or_create(name=self.names.replication, defaults={"plan": self.plan.model_dump()})
        runs = [self._episodes(self.plan.agents[0])]
        self._check_samples(runs[0])  # before the other runs cost anything
        runs += [self._episodes(agent) for agent in self.plan.agents[1:]]
        for error in PERTURBATIONS:
            self._accept(self._twins(runs[0], error))
        self._benchmark(runs)
        self._study(self.names.transitions, self._transitions)
        self._study(self.names.evidence, self._evidence)

    def check(self) -> None:
        """Raise PaperError if the plan is not possible here, or differs from what was already created."""
        problems = list(find_problems(self.plan, len(list(self._experiments()))))
        problems += [problem for name in dict.fromkeys(self.plan.agents) for problem in _check_cast("agents", name)]
        problems += _check_cast("twin_maker", self.plan.twin_maker)
        if problems:
            raise PaperError("This plan is not possible:\n" + "\n".join(problems))
        stored = PaperPlan.objects.filter(name=self.names.replication).first()
        if stored and (changes := find_changes(stored.plan, self.plan, self._fixed())):
            raise PaperError(
                f"This replication was started with another plan: {'; '.join(changes)}. Continue with that plan, or start "
                "another replication with an empty data folder (WETBENCH_VAR_DIR)"
            )

    def _fixed(self) -> list[str]:
        """Return the parts of the plan that something was already created from."""
        kinds_created = {run.kind for run in self._runs()}
        parts = ["agents", "experiments", "attempts", "seed"] if kinds_created else []
        parts += ["twin_maker", "sample"] if "twins" in kinds_created else []
        for key, slug in (("transitions", self.names.transitions), ("evidence", self.names.evidence)):
            parts += [key, "simulated_raters"] if Study.objects.filter(slug=slug).exists() else []
        return list(dict.fromkeys(parts))

    def _check_samples(self, run: Run) -> None:
        """Raise PaperError if the run has too few steps for samples that do not overlap."""
        available = accepted_steps(self._experiments()).filter(episode__run=run).count()
        samples, sample = len(PERTURBATIONS), self.plan.sample
        if available < samples * sample:
            raise PaperError(
                f"sample: {samples} samples of {sample} steps that do not overlap need {samples * sample} accepted steps, but "
                f"{run.cast} took {available}. Reduce sample (and transitions.items) and run the same command again"
            )

    def find_retired(self) -> list[roster.Retired]:
        """Return the models of this replication that their providers have switched off."""
        return roster.find_retired(self.names.cast(name) for name in [*self.plan.agents, self.plan.twin_maker])

    def costs(self) -> list[Cost]:
        """Return the worst case of every run, before any is started."""
        costs, experiments = [], list(self._experiments())
        for name in self.plan.agents:
            worst = spending.estimate(roster.setup(self.names.cast(name)), experiments, self.plan.attempts)
            costs.append(Cost(f"{self.names.cast(name)}: episodes", worst.cost, worst.unpriced))
        maker = self.names.cast(self.plan.twin_maker)
        worst = spending.estimate_twins(roster.setup(maker), len(PERTURBATIONS) * self.plan.sample)
        return [*costs, Cost(f"{maker}: twins", worst.cost, worst.unpriced)]

    def _experiments(self) -> Iterator[Experiment]:
        planned = self.plan.experiments
        rows = Experiment.objects.all() if planned == "all" else Experiment.objects.filter(slug__in=planned)
        if isinstance(planned, list) and (missing := sorted(set(planned) - {row.slug for row in rows})):
            raise PaperError(f"There is no experiment {', '.join(missing)}")
        yield from rows

    def _episodes(self, agent: str) -> Run:
        cast = self.names.cast(agent)
        with transaction.atomic():
            run = queueing.queue_episodes(
                self._experiments(), cast, self.plan.attempts, self.plan.seed, submission_id=self.names.submission(agent),
                **self._limits(),
            )  # fmt: skip
            # In the same transaction: no worker ever sees the run unpaused.
            self._leave(run)
        self._play(run, f"Playing {cast}")
        return run

    def _twins(self, run: Run, error: Perturbation) -> Run:
        """Create the twins of one error type, or the twin maker's own answers, for a sample of steps that have no twin by it yet."""
        maker = self.names.cast(self.plan.twin_maker)
        # Samples do not overlap: a rater sees only one version of a step, so several versions of one would need
        # more raters.
        steps = accepted_steps(self._experiments()).filter(episode__run=run).exclude(twins__cast=maker)
        with transaction.atomic():
            twins_run = queueing.queue_twins(
                steps, [error], maker, 1, self.plan.seed, None, self.names.submission(f"twins-{error}"), self.plan.sample,
                **self._limits(),
            )  # fmt: skip
            self._leave(twins_run)
        self._play(twins_run, f"Making {'answers' if error == Perturbation.NONE else f'{error} twins'} by {maker}")
        return twins_run

    def _play(self, run: Run, what: str) -> None:
        """Play a run to its end in this process. Raises PaperError if rows are blocked by the budget, a key or a refused request."""
        progress = queueing.progress(run)
        # A finished run is left alone, so that the command can be repeated at no cost.
        if not progress.finished or progress.by_status.get("blocked"):
            self._go_on(run)
            try:
                progress = workers.play_run(run, self.threads, self.watch(what))
            finally:
                self._leave(run)
        if blocked := progress.by_status.get("blocked", 0):
            raise PaperError(f"{what}: {blocked} of {progress.total} are blocked ({self._why_held(run)}")

    def _why_held(self, run: Run) -> str:
        """Return why rows of the run are blocked, and what to do about it."""
        troubles = [trouble for trouble in queueing.troubles(run) if trouble.status == "blocked"]
        reasons = "; ".join(sorted({trouble.error for trouble in troubles})[:3])
        if self.max_cost is None or all(trouble.reason != "budget" for trouble in troubles):
            return f"{reasons}). Fix this and run `make paper` again"
        return (
            f"{reasons}). MAX_COST={self.max_cost:f} is used up: ${self._used():,.2f} are spent, or reserved for calls of unknown "
            "cost. Run the same command with a larger MAX_COST to continue"
        )

    def _go_on(self, run: Run) -> None:
        """Release what an earlier start left blocked, within the money that is left now."""
        if self.max_cost is not None:
            control.continue_run(run, max_cost=self._left(besides=run))
        control.try_again(run)
        control.resume_run(run)

    def _leave(self, run: Run) -> None:
        """Pause a run that has not ended and that only this command can play, so that no worker blocks it."""
        if self.names.scripted and not queueing.progress(run).finished:
            control.pause_run(run)

    def _limits(self) -> queueing.Terms:
        return {} if self.max_cost is None else {"max_cost": self._left()}

    def _left(self, besides: Run | None = None) -> Decimal:
        """Return the money that all runs, or all but one, leave of the limit."""
        assert self.max_cost is not None
        return max(self.max_cost - self._used(besides), Decimal(0))

    def _used(self, besides: Run | None = None) -> Decimal:
        """Return what the runs have cost, counted as budgets count it (docs/models.md)."""
        runs = [run for run in self._runs() if besides is None or run.pk != besides.pk]
        # A call of unknown cost counts at its worst case: the limit must hold whatever it turns out to cost.
        return sum((spending.verify(run).ledger_cost for run in runs), start=Decimal(0))

    def _runs(self) -> list[Run]:
        return list(Run.objects.filter(submission_id__startswith=self.names.submission("")))

    def _accept(self, run: Run) -> None:
        """Accept the twins that nobody has reviewed. Each is recorded as accepted unread."""
        if accepted := vetting.accept_unread(run.twins.all(), UNREAD):
            self.say(f"Accepted {accepted} twins unread; each is recorded as such and stays in the vetting queue")

    def _benchmark(self, runs: list[Run]) -> None:
        name = self.names.benchmark
        benchmark = Benchmark.objects.filter(name=name).first()
        if benchmark is None:
            note = SCRIPTED_NOTE if self.names.scripted else ""
            benchmark = freezing.freeze(name, runs, demonstration.administrator(), note)
        self.say("Comparing the agents")
        benchmark_playing.compute(benchmark)

    def _study(self, slug: str, protocol: Callable[[StudyPlan], Mapping[str, Any]]) -> None:
        admin, plan = demonstration.administrator(), self._plan_of(slug)
        study = Study.objects.filter(slug=slug).first() or self._open({**protocol(plan), "slug": slug}, admin)
        if study.is_open:
            self.say(f"Simulated raters are rating {study.name}")
            rater_plan = self.plan.simulated_raters
            simulated.simulate_raters(
                study, plan.raters, rater_plan.sensitivity_obvious, rater_plan.sensitivity_subtle, rater_plan.specificity,
                agreement=rater_plan.agreement, located=rater_plan.located, seed=self.plan.seed,
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
        """Open a study. Raises PaperError if the pool has too few items for it."""
        study = lifecycle.create_study(lifecycle.read_protocol(protocol), by=admin)
        try:
            lifecycle.open_study(study, by=admin)
        except (PlanError, StudyError) as error:
            message = f"{study.slug}: {error}. Reduce the items in the plan and run the same command again"
            raise PaperError(message) from error
        study.refresh_from_db()
        return study

    def _transitions(self, plan: StudyPlan) -> Mapping[str, Any]:
        """Return the study document: steps of the first agent, the twin maker's answers to such steps, and its errors of both types."""
        maker = self.names.cast(self.plan.twin_maker)
        sources = [(self.names.cast(self.plan.agents[0]), "none"), *((maker, error) for error in PERTURBATIONS)]
        return self._protocol(self.names.title("Paper: are the steps plausible?"), TRANSITION, sources, plan)

    def _evidence(self, plan: StudyPlan) -> Mapping[str, Any]:
        sources = [(self.names.cast(agent), "none") for agent in self.plan.agents]
        return self._protocol(self.names.title("Paper: is the evidence sufficient?"), EVIDENCE, sources, plan)

    def _protocol(self, name: str, kind: str, wanted: list[tuple[str, str]], plan: StudyPlan) -> dict[str, Any]:
        sources = [{"cast": cast, "perturbation": str(error), "count": plan.items} for cast, error in wanted]
        return {
            "name": name, "kind": kind, "sources": sources, "experiments": self.plan.experiments,
            "ratings_per_item": plan.ratings_per_item, "raters": plan.raters, "seed": self.plan.seed,
        }  # fmt: skip


def _check_cast(place: str, name: str) -> Iterator[str]:
    row = CastDefinition.objects.filter(name=name).first()
    if row is None:
        yield f"{place}: there is no language-model cast {name!r}"
    elif "model" not in row.data["transition_model"]:
        yield f"{place}: the transition model of {name!r} is not a language model"


@contextmanager
def scripted_replies(plan: Plan) -> Iterator[None]:
    """Start the scripted server, send all provider calls of this process to it, and create casts that use it.

    Raises PaperError while workers of other processes are running.
    """
    # Other processes do not have the server's address: they could not play these runs and would block them.
    if queueing.workers_alive():
        raise PaperError("Stop the workers first: they cannot reach the server with the scripted replies")
    names = Names(scripted=True)
    for name in [*plan.agents, plan.twin_maker]:
        row = CastDefinition.objects.filter(name=name).first()
        if row is None:
            raise PaperError(
                f"There is no language-model cast {name!r}: run `python manage.py load_models fixtures/casts.json`"
            )
        definition = {"name": names.cast(name), "description": f"{row.description} {SCRIPTED_NOTE}", "scripted": True}
        CastDefinition.objects.update_or_create(
            name=definition["name"],
            defaults={"description": definition["description"], "data": {**row.data, **definition}},
        )
    with scripted_server.spawned() as server:
        variables = {**server.environ(), setups.SCRIPTED_VARIABLE: server.url}
        previous = {name: os.environ.get(name) for name in variables}
        # The providers' clients read their base URLs and keys from the environment.
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in previous.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def missing_keys(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the environment variables of the keys that the plan's casts need, and those that are not set."""
    needed = set()
    for name in [*plan.agents, plan.twin_maker]:
        for model in roster.setup(name).get("models", {}).values():
            provider = PROVIDERS[model["provider"]]
            if provider.needs_key:
                needed.add(provider.key_variable)
    return sorted(needed), sorted(name for name in needed if not os.environ.get(name))
