"""The job of a model rater. Each unit rates one item, so at most one call is lost if a worker dies."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F
from django.utils import timezone

from ratings.blinding import item_view
from ratings.models import EVIDENCE, Item, MachineRater, MachineRating, Study
from ratings.models.study_events import MachineRated
from ratings.raters import checker_rater, model_raters
from ratings.studies import access
from ratings.studies.lifecycle import log_event
from simulation import leases
from simulation.calls import run_usage
from simulation.calls.run_usage import UsageTotals
from simulation.casts import RoleConfig, RunConfig, casting, prompt_store
from simulation.casts.casting import PromptTools
from simulation.casts.cost_estimate import CostEstimate
from simulation.engine import runner
from simulation.jobs import Outcome, Work, jobs
from simulation.leases import Blocked, RetriesExhausted
from simulation.llm import NoUsableAnswer, Refusal, TooLong
from simulation.llm.model_rater import PLAUSIBILITY, SUFFICIENCY, RatingInput, RatingKind
from simulation.models import Job
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import Completion

# Items per unit for the checker, which makes no calls: committing every item by itself would only add transactions.
CHECKER_BATCH = 50
MAX_CONSECUTIVE_FAILURES = 3  # consecutive items without any response end the job
Columns = dict[str, Any]


@jobs.register_handler(model_raters.KIND)
def run_rating_unit(work: Work) -> Outcome:
    """Run one unit: rate the next item or, for the checker, the next few items.

    The answers are stored before the next unit begins.
    """
    rater = MachineRater.objects.select_related("study").get(code=work.params["rater"])
    # One item per unit for a model: at most one call is lost if a worker dies.
    items_left = list(model_raters.items_to_rate(rater, work.params)[: 1 if rater.run_id else CHECKER_BATCH])
    if not items_left:
        return work.finish_job(lambda: _finish_job(rater))
    items = Item.objects.filter(study=rater.study_id)
    # The position is the number of the item's calls in the call log, so it must be the same when the unit is repeated.
    position = items.filter(pk__lt=items_left[0].pk).count()
    work.report_progress(position, items.count(), f"{rater.label}, {rater.name}")
    if rater.run_id:
        answers = [_rate_by_model(work, rater, items_left[0], position)]
    else:
        answers = [_rate_by_checker(item) for item in items_left]
    # The answers and the progress are one commit, so a restarted worker finds either both or none.
    work.commit_write(lambda: _store_answers(rater, dict(zip(items_left, answers, strict=True)), work.params["round"]))
    return jobs.MORE_WORK


def rating_kind(rater: MachineRater) -> RatingKind:
    return SUFFICIENCY if rater.study.kind == EVIDENCE else PLAUSIBILITY


def build_input(rater: MachineRater, item: Item) -> RatingInput:
    """Return the frozen payload, the context if this model receives it, and the payload's rows with their keys."""
    context = item.context if rater.setup.get("with_context") and item.context else None
    return RatingInput(item.payload, context, item_view.list_payload_rows(item.payload))


def estimate_max_cost(rater: MachineRater, items: Iterable[Item], n_more: int = 0) -> CostEstimate | None:
    """Return the maximum cost of rating these items, computed from their real prompts; None for the checker.

    `n_more` further items are added, each with a prompt as large as the largest of these.
    """
    if rater.run is None:
        return None
    setup = RunConfig.from_json(rater.run.setup)
    texts = prompt_store.load_texts(setup.prompt_sha256)
    tools = PromptTools(_refuse_calls, lambda: texts, {})
    rater_role = casting.build_rater(setup, rating_kind(rater), *_frozen_texts(rater), tools)
    prompts = (rater_role.build_prompt(build_input(rater, item)) for item in items)
    # Bytes are an upper bound for tokens.
    sizes = [len(one.system.encode()) + len(one.messages[0].text.encode()) for one in prompts]
    # Items that are not known yet are estimated with the largest known prompt, so that the budget is never too small.
    sizes += [max(sizes, default=0)] * n_more
    return run_usage.estimate_ratings(rater.run.setup, sizes)


def _refuse_calls(player: RoleConfig) -> CompletionFunction:
    """Return a completion function that raises AssertionError: its prompts are only measured, never sent."""

    def speak(prompt: Prompt) -> Completion:
        # A call here would cost money without a lease and without a row in the call log.
        raise AssertionError(f"{player.name} is not asked here")

    return speak


def _frozen_texts(rater: MachineRater) -> tuple[str, str]:
    """Return the study's question and guide at the time this model began."""
    return rater.setup["question"], rater.setup["guide"]


def _rate_by_model(work: Work, rater: MachineRater, item: Item, position: int) -> Columns:
    """Return the columns of the model's answer, or of its failure on this item. An unavailable provider ends the job."""
    # Answers of earlier jobs of the round are replayed from the call log, so that a continued round does not pay for
    # them again.
    jobs_of_round = model_raters.list_jobs(rater).filter(params__round=work.params["round"], pk__lte=work.job.pk)
    job_ids = tuple(jobs_of_round.order_by("pk").values_list("pk", flat=True))
    kind, texts = rating_kind(rater), _frozen_texts(rater)
    try:
        role = runner.build_model_rater(work.lease, kind, *texts, position, job_ids)
        answer = role.rate_item(build_input(rater, item))
    # These errors are about the item: the model responded, or its prompt cannot fit. They are stored and the next item
    # follows.
    except (Refusal, NoUsableAnswer, TooLong) as error:
        return _failure_columns(leases.classify_fault(error), str(error))
    except (RetriesExhausted, Blocked) as error:
        # An error about the context concerns this item alone, even though the provider reported it.
        is_about_item = error.reason == "context" or (
            error.reason in model_raters.NO_RESPONSE and not _is_provider_down(work, rater)
        )
        if not is_about_item:
            raise
        return _failure_columns(error.reason, str(error))
    if answer.verdict is None:
        columns = _failure_columns(model_raters.CANNOT_JUDGE)
        return {**columns, "marks": list(answer.marks), "reasoning": answer.reason}
    return _answer_columns(answer.verdict, answer.confidence, answer.marks, answer.reason)


def _is_provider_down(work: Work, rater: MachineRater) -> bool:
    """Return whether the items before got no response either. If so, delete their failures: they are unrated again."""
    # One item that a provider cannot process must not prevent the model from rating the others.
    last_ratings = rater.ratings.order_by("-at", "-pk")[: MAX_CONSECUTIVE_FAILURES - 1]
    without_response = [rating.pk for rating in last_ratings if rating.failed in model_raters.NO_RESPONSE]
    if len(without_response) < MAX_CONSECUTIVE_FAILURES - 1:
        return False

    def delete_failures() -> None:
        rater.ratings.filter(pk__in=without_response).delete()
        _mark_changed(rater)

    work.commit_write(delete_failures)
    return True


def _rate_by_checker(item: Item) -> Columns:
    answer = checker_rater.rate_payload(item.payload)
    if answer.verdict is None:
        return _failure_columns(model_raters.UNDECIDABLE, "no amount in the item could be compared with another")
    return _answer_columns(answer.verdict, None, answer.marks, answer.reason)


def _answer_columns(verdict: bool | None, confidence: int | None, marks: Iterable[str], reason: str) -> Columns:
    answer = {"verdict": verdict, "confidence": confidence, "marks": list(marks), "reasoning": reason}
    return {**answer, "failed": "", "error": ""}


def _failure_columns(failed: str, error: str = "") -> Columns:
    # Cut to the widths of the two columns.
    return {**_answer_columns(None, None, (), ""), "failed": failed[:24], "error": error[:4000]}


def _store_answers(rater: MachineRater, answers: Mapping[Item, Columns], round: int) -> None:
    for item, columns in answers.items():
        columns = {**columns, "payload_sha256": item.payload_sha256, "at": timezone.now(), "round": round}
        # A retry replaces the failed row: an item has one answer per rater.
        MachineRating.objects.update_or_create(rater=rater, item=item, defaults=columns)
    _mark_changed(rater)


def _mark_changed(rater: MachineRater) -> None:
    # A counter makes stored analyses stale, because the clocks of two workers may differ.
    MachineRater.objects.filter(pk=rater.pk).update(changes=F("changes") + 1)


def _finish_job(rater: MachineRater) -> Outcome:
    """Return the job's result and log it. Both have numbers of items only, and no answers."""
    progress = model_raters.count_progress(rater)
    failed = "".join(f", {number} {reason.replace('_', ' ')}" for reason, number in sorted(progress.failed.items()))
    message = f"{rater.label}, {rater.name}: {progress.rated} of {progress.items} items rated{failed}"
    counts: Columns = {"rated": progress.rated, "items": progress.items, "failed": dict(progress.failed)}
    # Names and numbers only: the log is readable before the study is unblinded.
    log_event(rater.study, MachineRated(rater=rater.label, name=rater.name, **counts))
    return {"said": message, **counts}


_STATE_LABELS = {
    "queued": ("queued", ""),
    "running": ("running", "info"),
    "waiting": ("waiting", "info"),
    "failed": ("failed", "danger"),
    "cancelled": ("stopped by a person", "warn"),
}


@dataclass(frozen=True)
class MachineProgress:
    """The progress of one model rater: rated items, then answers without a verdict and failures, both by reason.

    `owed` is the number of items without a stored result.
    """

    rater: MachineRater
    rated: int
    without: list[tuple[str, int]]
    failed: list[tuple[str, int]]
    owed: int
    totals: UsageTotals | None  # None: no calls
    job: Job | None  # the last one

    @property
    def input_description(self) -> str:
        return model_raters.describe_input(self.rater)

    @property
    def n_failed(self) -> int:
        return sum(number for _, number in self.failed)

    @property
    def is_running(self) -> bool:
        return self.job is not None and self.job.status in Job.RUNNABLE

    @property
    def status_label(self) -> tuple[str, str]:
        """The status as text, and the colour tone in which the page shows it ("" for none)."""
        # A paused run keeps its job runnable, so the job alone would appear as "running".
        if self.is_running and self.rater.run and self.rater.run.paused_at:
            return "paused", "warn"
        if self.job is not None and self.job.status != "done":
            return _STATE_LABELS[self.job.status]
        if self.owed:
            return "answers missing", "warn"
        return ("done, some failed", "warn") if self.failed else ("done", "ok")

    @property
    def error_message(self) -> str:
        """The error of the last job, if it failed."""
        return self.job.error if self.job is not None and self.job.status == "failed" else ""

    @property
    def is_out_of_budget(self) -> bool:
        """Whether the last job failed because its budget was used up: it can continue only with a larger one."""
        return self.job is not None and self.job.status == "failed" and self.job.reason == "budget"

    @property
    def can_continue(self) -> bool:
        # An exhausted budget is a separate case: continuing without a larger one would fail at once.
        unfinished = self.job is not None and self.job.status in ("failed", "cancelled")
        return not self.is_running and not self.is_out_of_budget and bool(self.owed or unfinished)

    @property
    def can_retry(self) -> bool:
        return not self.is_running and not self.is_out_of_budget and bool(self.failed)


def list_progress(study: Study) -> list[MachineProgress]:
    """Return the progress of every model rater in the order of labels, with five queries for any number of raters."""
    raters = list(MachineRater.objects.filter(study=study).select_related("run", "study").order_by("pk"))
    if not raters:
        return []
    # Numbers of answers by rater and by the reason for a missing verdict ("" if there is a verdict).
    counts: dict[int, dict[str, int]] = {}
    answers = MachineRating.objects.filter(rater__study=study).order_by().values_list("rater", "failed")
    for key, failed, number in answers.annotate(n=Count("pk")):
        counts.setdefault(key, {})[failed] = number
    # Results can be large and are not needed for the page.
    job_rows = Job.objects.filter(kind=model_raters.KIND, subject=access.format_subject(study)).defer("result")
    # A later row of the same rater replaces the earlier one, so the last job remains.
    jobs = {job.params.get("rater", ""): job for job in job_rows.select_related("run").order_by("pk")}
    totals = run_usage.sum_usage_by_run(rater.run_id for rater in raters if rater.run_id)
    items = Item.objects.filter(study=study).count()
    lines = []
    for rater in raters:
        by_reason = counts.get(rater.pk, {})
        without: list[tuple[str, int]] = []
        failures: list[tuple[str, int]] = []
        for reason, number in sorted(by_reason.items()):
            if reason:
                (without if reason in model_raters.ANSWERED else failures).append((reason.replace("_", " "), number))
        owed, usage = items - sum(by_reason.values()), totals.get(rater.run_id or 0)
        job = jobs.get(str(rater.code))
        lines.append(MachineProgress(rater, by_reason.get("", 0), without, failures, owed, usage, job))
    return lines
