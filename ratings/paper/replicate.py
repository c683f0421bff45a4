"""Create the replication step by step. Each step creates only what does not exist, so it can be run again."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings import demonstration
from ratings.models import EVIDENCE, TRANSITION, Benchmark, Study
from ratings.paper.plan import Plan, ReplicationNames, find_changes, find_problems
from ratings.protocol import PlanError
from ratings.raters import simulated_raters
from ratings.results.analyses import analysis_job, store
from ratings.results.analyses.filters import Filters
from ratings.results.benchmarks import benchmark_job as benchmark_playing
from ratings.results.benchmarks import store as benchmark_store
from ratings.studies import StudyError, lifecycle
from simulation import scripted_server
from simulation.calls import run_usage
from simulation.casts import cast_availability, run_config
from simulation.engine import workers
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Perturbation
from simulation.models import CastDefinition, Experiment, PaperPlan, Run
from simulation.providers.base import PROVIDERS
from simulation.runs import control, create, list_accepted_steps, vetting

PrintLine = Callable[[str], None]
WatchProgress = Callable[[str], Callable[[create.RunProgress], None]]

PERTURBATIONS = (Perturbation.NONE, Perturbation.OBVIOUS, Perturbation.SUBTLE)
ACCEPTED_UNREAD = "Accepted unread by `manage.py paper`: nobody has reviewed this twin"
SCRIPTED_NOTE = "Scripted replies of a local server: no language model was called."


class PaperError(LabError):
    """The replication cannot continue. The message says what to do."""


class WorstCaseCost(NamedTuple):
    """The maximum cost of a part in US dollars, or None if a model has no price."""

    part: str
    worst: Decimal | None
    unpriced: list[str]


class Replicator:
    """One replication. `max_cost`: US dollars that all its runs together may cost; None with scripted replies."""

    def __init__(
        self, plan: Plan, scripted: bool, say: PrintLine, watch: WatchProgress, threads: int, max_cost: Decimal | None
    ) -> None:
        self.plan, self.names, self.say, self.watch = plan, ReplicationNames(scripted), say, watch
        self.threads, self.max_cost = threads, max_cost

    def run_replication(self) -> None:
        """Play, plant errors, rate, unblind and analyse. Raises PaperError if it cannot continue."""
        self.check_plan()
        # Stored before anything is created, for the comparison when the command is run again.
        PaperPlan.objects.update_or_create(name=self.names.replication_name, defaults={"plan": self.plan.model_dump()})
        runs = [self._run_episodes(self.plan.agents[0])]
        self._check_samples(runs[0])  # before the other runs cost anything
        runs += [self._run_episodes(agent) for agent in self.plan.agents[1:]]
        for error in PERTURBATIONS:
            twins = self._run_twins(runs[0], error).twins.all()
            if accepted := vetting.accept_unread(twins, ACCEPTED_UNREAD):
                self.say(f"Accepted {accepted} twins unread; each is recorded as such and stays in the vetting queue")
        self._create_benchmark(runs)
        self._run_study(TRANSITION)
        self._run_study(EVIDENCE)

    def check_plan(self) -> None:
        """Raise PaperError if the plan is not possible here, or differs from what was already created."""
        problems = list(find_problems(self.plan, len(self._select_experiments())))
        for name in dict.fromkeys(self.plan.agents):
            problems += _find_cast_problems("agents", name)
        problems += _find_cast_problems("twin_maker", self.plan.twin_maker)
        if problems:
            raise PaperError("This plan is not possible:\n" + "\n".join(problems))
        stored = PaperPlan.objects.filter(name=self.names.replication_name).first()
        if stored and (changes := find_changes(stored.plan, self.plan, self._list_fixed_parts())):
            raise PaperError(
                f"This replication was started with another plan: {'; '.join(changes)}. Continue with that plan, or start "
                "another replication with an empty data folder (WETBENCH_VAR_DIR)"
            )

    def _list_fixed_parts(self) -> list[str]:
        """Return the names of the fields of the plan from which something was already created."""
        kinds_created = {run.kind for run in self._list_runs()}
        parts = ["agents", "experiments", "attempts", "seed"] if kinds_created else []
        parts += ["twin_maker", "sample"] if "twins" in kinds_created else []
        for key, slug in (("transitions", self.names.transitions_slug), ("evidence", self.names.evidence_slug)):
            parts += [key, "simulated_raters"] if Study.objects.filter(slug=slug).exists() else []
        return list(dict.fromkeys(parts))

    def _check_samples(self, run: Run) -> None:
        """Raise PaperError if the run has too few steps for samples that do not overlap."""
        available = list_accepted_steps(self._select_experiments()).filter(episode__run=run).count()
        samples, sample = len(PERTURBATIONS), self.plan.sample
        if available < samples * sample:
            raise PaperError(
                f"sample: {samples} samples of {sample} steps that do not overlap need {samples * sample} accepted steps, but "
                f"{run.cast} took {available}. Reduce sample (and transitions.items) and run the same command again"
            )

    def find_retired(self) -> list[cast_availability.RetiredModel]:
        """Return the models of this replication that their providers have switched off."""
        return cast_availability.find_retired(map(self.names.get_cast_name, self.plan.cast_names))

    def estimate_costs(self) -> list[WorstCaseCost]:
        """Return the worst case of every run, before any is started."""
        costs, experiments = [], self._select_experiments()
        for name in self.plan.agents:
            cast = self.names.get_cast_name(name)
            details = cast_availability.describe_cast(cast)
            worst = run_usage.estimate_episodes(details, experiments, self.plan.attempts)
            costs.append(WorstCaseCost(f"{cast}: episodes", worst.cost, worst.unpriced))
        maker = self.names.get_cast_name(self.plan.twin_maker)
        worst = run_usage.estimate_twins(cast_availability.describe_cast(maker), len(PERTURBATIONS) * self.plan.sample)
        return [*costs, WorstCaseCost(f"{maker}: twins", worst.cost, worst.unpriced)]

    def _select_experiments(self) -> list[Experiment]:
        planned = self.plan.experiments
        rows = Experiment.objects.all() if planned == "all" else Experiment.objects.filter(slug__in=planned)
        if isinstance(planned, list) and (missing := sorted(set(planned) - {row.slug for row in rows})):
            raise PaperError(f"There is no experiment {', '.join(missing)}")
        return list(rows)

    def _run_episodes(self, agent: str) -> Run:
        cast = self.names.get_cast_name(agent)
        with transaction.atomic():
            run = create.create_episode_run(
                self._select_experiments(), cast, self.plan.attempts, self.plan.seed, submission_id=self.names.build_submission_id(agent),
                **self._build_limits(),
            )  # fmt: skip
            # In the same transaction: no worker ever sees the run unpaused.
            self._pause_unfinished(run)
        self._play_run(run, f"Playing {cast}")
        return run

    def _run_twins(self, run: Run, error: Perturbation) -> Run:
        """Create twins with one error type, or the twin maker's plain answers, for a sample of steps without any."""
        maker = self.names.get_cast_name(self.plan.twin_maker)
        # Samples do not overlap: a rater sees only one version of a step, so several versions of one would need
        # more raters.
        steps = list_accepted_steps(self._select_experiments()).filter(episode__run=run).exclude(twins__cast=maker)
        with transaction.atomic():
            twins_run = create.create_twin_run(
                steps, [error], maker, 1, self.plan.seed, None, self.names.build_submission_id(f"twins-{error}"), self.plan.sample,
                **self._build_limits(),
            )  # fmt: skip
            self._pause_unfinished(twins_run)
        self._play_run(twins_run, f"Making {'answers' if error == Perturbation.NONE else f'{error} twins'} by {maker}")
        return twins_run

    def _play_run(self, run: Run, title: str) -> None:
        """Play a run to its end in this process. Raises PaperError if rows are blocked by the budget, a key or a refused request."""
        progress = create.get_progress(run)
        # A finished run is left alone, so that the command can be repeated at no cost.
        if not progress.is_finished or progress.by_status.get("blocked"):
            self._resume_run(run)
            try:
                progress = workers.run_to_end(run, self.threads, self.watch(title))
            finally:
                self._pause_unfinished(run)
        if blocked := progress.by_status.get("blocked", 0):
            raise PaperError(f"{title}: {blocked} of {progress.total} are blocked ({self._explain_blocked(run)}")

    def _explain_blocked(self, run: Run) -> str:
        """Return why rows of the run are blocked, and what to do about it."""
        troubles = [trouble for trouble in create.count_failures(run) if trouble.status == "blocked"]
        reasons = "; ".join(sorted({trouble.error for trouble in troubles})[:3])
        if self.max_cost is None or all(trouble.reason != "budget" for trouble in troubles):
            return f"{reasons}). Fix this and run `make paper` again"
        return (
            f"{reasons}). MAX_COST={self.max_cost:f} is used up: ${self._sum_costs():,.2f} are spent, or reserved for calls of unknown "
            "cost. Run the same command with a larger MAX_COST to continue"
        )

    def _resume_run(self, run: Run) -> None:
        """Continue a run that an earlier start left blocked or paused, within the budget that is left now."""
        if self.max_cost is not None:
            control.continue_run(run, max_cost=self._compute_budget_left(except_run=run))
        control.retry_blocked(run)
        control.resume_run(run)

    def _pause_unfinished(self, run: Run) -> None:
        """Pause an unfinished run with scripted replies, because only this command can play it."""
        if self.names.scripted and not create.get_progress(run).is_finished:
            control.pause_run(run)

    def _build_limits(self) -> create.RunOptions:
        return {} if self.max_cost is None else {"max_cost": self._compute_budget_left()}

    def _compute_budget_left(self, except_run: Run | None = None) -> Decimal:
        """Return how much of the cost limit is left after the costs of all runs, without those of `except_run`."""
        assert self.max_cost is not None
        return max(self.max_cost - self._sum_costs(except_run), Decimal(0))

    def _sum_costs(self, except_run: Run | None = None) -> Decimal:
        """Return the costs of all runs but `except_run`, counted in the same way as for budgets (docs/models.md)."""
        runs = [run for run in self._list_runs() if except_run is None or run.pk != except_run.pk]
        # A call of unknown cost counts at its worst case: the limit must hold whatever it turns out to cost.
        return sum((run_usage.check_budget_counters(run).ledger_cost for run in runs), start=Decimal(0))

    def _list_runs(self) -> list[Run]:
        return list(Run.objects.filter(submission_id__startswith=self.names.build_submission_id("")))

    def _create_benchmark(self, runs: list[Run]) -> None:
        name = self.names.benchmark_name
        benchmark = Benchmark.objects.filter(name=name).first()
        if benchmark is None:
            note = SCRIPTED_NOTE if self.names.scripted else ""
            benchmark = benchmark_store.freeze_benchmark(name, runs, demonstration.get_or_create_admin(), note)
        self.say("Comparing the agents")
        benchmark_playing.compute_benchmark(benchmark)

    def _run_study(self, kind: str) -> None:
        admin = demonstration.get_or_create_admin()
        agents = [(self.names.get_cast_name(agent), "none") for agent in self.plan.agents]
        if kind == TRANSITION:
            maker = self.names.get_cast_name(self.plan.twin_maker)
            # Steps of the first agent, and the twin maker's plain answers and planted errors of both types.
            sources = [agents[0], *((maker, str(error)) for error in PERTURBATIONS)]
            slug, title, plan = self.names.transitions_slug, "Paper: are the steps plausible?", self.plan.transitions
        else:
            sources = agents
            slug, title, plan = self.names.evidence_slug, "Paper: is the evidence sufficient?", self.plan.evidence
        protocol = {
            "name": self.names.format_title(title), "kind": kind, "slug": slug, "experiments": self.plan.experiments,
            "sources": [{"cast": cast, "perturbation": error, "count": plan.items} for cast, error in sources],
            "ratings_per_item": plan.ratings_per_item, "raters": plan.raters, "seed": self.plan.seed,
        }  # fmt: skip
        study = Study.objects.filter(slug=slug).first() or self._open_study(protocol, admin)
        if study.is_open:
            self.say(f"Simulated raters are rating {study.name}")
            rater_plan = self.plan.simulated_raters
            simulated_raters.simulate_raters(
                study, plan.raters, rater_plan.sensitivity_obvious, rater_plan.sensitivity_subtle, rater_plan.specificity,
                agreement=rater_plan.agreement, located=rater_plan.located, seed=self.plan.seed,
            )  # fmt: skip
        lifecycle.close_and_unblind(study, by=admin)
        study.refresh_from_db()
        self.say(f"Analysing {study.name}")
        analysis_job.draw_figures(store.compute_analysis(study, Filters()))

    @staticmethod
    @transaction.atomic
    def _open_study(protocol: Mapping[str, Any], admin: User) -> Study:
        """Open a study. Raises PaperError if the pool has too few items for it."""
        study = lifecycle.create_study(lifecycle.parse_protocol(protocol), by=admin)
        try:
            lifecycle.open_study(study, by=admin)
        except (PlanError, StudyError) as error:
            message = f"{study.slug}: {error}. Reduce the items in the plan and run the same command again"
            raise PaperError(message) from error
        study.refresh_from_db()
        return study


def _find_cast_problems(key: str, name: str) -> Iterator[str]:
    row = CastDefinition.objects.filter(name=name).first()
    if row is None:
        yield f"{key}: there is no language-model cast {name!r}"
    elif "model" not in row.data["transition_model"]:
        yield f"{key}: the transition model of {name!r} is not a language model"


@contextmanager
def scripted_replies(plan: Plan) -> Iterator[None]:
    """Run the scripted server and casts that use it. Raises PaperError while workers of other processes run."""
    # Other processes do not have the server's address: they could not play these runs and would block them.
    if create.has_live_worker():
        raise PaperError("Stop the workers first: they cannot reach the server with the scripted replies")
    names = ReplicationNames(scripted=True)
    for name in plan.cast_names:
        row = CastDefinition.objects.filter(name=name).first()
        if row is None:
            raise PaperError(
                f"There is no language-model cast {name!r}: run `python manage.py load_models fixtures/casts.json`"
            )
        scripted_name, description = names.get_cast_name(name), f"{row.description} {SCRIPTED_NOTE}"
        data = {**row.data, "name": scripted_name, "description": description, "scripted": True}
        CastDefinition.objects.update_or_create(name=scripted_name, defaults={"description": description, "data": data})
    with scripted_server.run_in_process() as server:
        variables = {**server.get_environ(), run_config.SCRIPTED_VARIABLE: server.url}
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


def find_missing_keys(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the environment variables of the keys that the plan's casts need, and those that are not set."""
    needed = set()
    for name in plan.cast_names:
        for model in cast_availability.describe_cast(name).get("models", {}).values():
            provider = PROVIDERS[model["provider"]]
            if provider.needs_key:
                needed.add(provider.key_variable)
    return sorted(needed), sorted(name for name in needed if not os.environ.get(name))
