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
from simulation.calls import run_usage
from simulation.calls.run_usage import UsageTotals
from simulation.casts import RoleConfig, RunConfig, casting, prompt_store
from simulation.casts.casting import PromptTools
from simulation.casts.cost_estimate import CostEstimate
from simulation.engine import runner
from simulation.jobs import Outcome, Work, jobs
from simulation.leases import Blocked, RetriesExhausted, leases
from simulation.llm import NoUsableAnswer, Refusal, TooLong
from simulation.llm.model_rater import PLAUSIBILITY, SUFFICIENCY, Judgement, LLMRater, RatingInput, RatingKind
from simulation.models import Job
from simulation.providers import CompletionFunction, Prompt
from simulation.providers.base import Completion

# The checker makes no calls, so committing every item by itself would only add transactions.
CHECKER_BATCH = 50  # items per unit for the checker, which makes no calls
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
    answers = (
        [_rate_by_model(work, rater, items_left[0], position)]
        if rater.run_id
        else [_rate_by_checker(item) for item in items_left]
    )
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
    rater_role = casting.build_rater(
        setup, rating_kind(rater), *_frozen_texts(rater), PromptTools(_refuse_calls, lambda: texts, {})
    )
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
    """Return the columns of the model's answer, or of its failure on this item.

    If the provider is unavailable, raise the error and so end the job, because the failure does not depend on the
    item.
    """
    try:
        return _answer_columns(_make_role(work, rater, position).rate_item(build_input(rater, item)))
    # These errors are about the item: the model responded, or its prompt cannot fit. They are stored and the next item
    # follows.
    except (Refusal, NoUsableAnswer, TooLong) as error:
        return _failure_columns(leases.classify_fault(error), str(error))
    except (RetriesExhausted, Blocked) as error:
        # An error about the context concerns this item alone, even though the provider reported it.
        if error.reason != "context" and (
            error.reason not in model_raters.NO_RESPONSE or _is_provider_down(work, rater)
        ):
            raise
        return _failure_columns(error.reason, str(error))


def _is_provider_down(work: Work, rater: MachineRater) -> bool:
    """Return whether the provider fails, and not only this item: the items before it got no response either.

    If so, delete the failures of those items, so that they count as unrated again.
    """
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


def _make_role(work: Work, rater: MachineRater, position: int) -> LLMRater:
    params = work.params
    # Answers of earlier jobs of the round are replayed from the call log, so that a continued round does not pay for
    # them again.
    jobs_of_round = model_raters.list_jobs(rater).filter(params__round=params["round"], pk__lte=work.job.pk)
    job_ids = tuple(jobs_of_round.order_by("pk").values_list("pk", flat=True))
    return runner.build_model_rater(work.lease, rating_kind(rater), *_frozen_texts(rater), position, job_ids)


def _answer_columns(judgement: Judgement) -> Columns:
    if judgement.verdict is None:
        return {
            **_failure_columns(model_raters.CANNOT_JUDGE, ""),
            "marks": list(judgement.marks),
            "reasoning": judgement.reason,
        }
    return {
        "verdict": judgement.verdict, "confidence": judgement.confidence, "marks": list(judgement.marks),
        "reasoning": judgement.reason, "failed": "", "error": "",
    }  # fmt: skip


def _rate_by_checker(item: Item) -> Columns:
    verdict = checker_rater.rate_payload(item.payload)
    if verdict.verdict is None:
        return _failure_columns(model_raters.UNDECIDABLE, "no amount in the item could be compared with another")
    return {
        "verdict": verdict.verdict, "confidence": None, "marks": list(verdict.marks), "reasoning": verdict.reason,
        "failed": "", "error": "",
    }  # fmt: skip


def _failure_columns(failed: str, error: str) -> Columns:
    return {
        # The widths of the two columns.
        "verdict": None, "confidence": None, "marks": [], "reasoning": "", "failed": failed[:24], "error": error[:4000],
    }  # fmt: skip


def _store_answers(rater: MachineRater, answers: Mapping[Item, Columns], round: int) -> None:
    for item, columns in answers.items():
        columns = {**columns, "payload_sha256": item.payload_sha256, "at": timezone.now(), "round": round}
        # A retry replaces the failed row: an item has one answer per rater.
        MachineRating.objects.update_or_create(rater=rater, item=item, defaults=columns)
    _mark_changed(rater)


def _mark_changed(rater: MachineRater) -> None:
    """Increment the counter that makes stored analyses stale. A counter, because the clocks of two workers may
    differ.
    """
    MachineRater.objects.filter(pk=rater.pk).update(changes=F("changes") + 1)


def _finish_job(rater: MachineRater) -> Outcome:
    """Return the job's result and log it. Both have numbers of items only, and no answers."""
    progress = model_raters.count_progress(rater)
    failed = "".join(f", {number} {reason.replace('_', ' ')}" for reason, number in sorted(progress.failed.items()))
    message = f"{rater.label}, {rater.name}: {progress.rated} of {progress.items} items rated{failed}"
    failures = dict(progress.failed)
    content = MachineRated(
        rater=rater.label, name=rater.name, rated=progress.rated, items=progress.items, failed=failures
    )
    # Names and numbers only: the log is readable before the study is unblinded.
    log_event(rater.study, content)
    return {"said": message, "rated": progress.rated, "items": progress.items, "failed": failures}


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
    # An exhausted budget is a separate case: continuing without a larger one would fail at once.
    def can_continue(self) -> bool:
        unfinished = self.job is not None and self.job.status in ("failed", "cancelled")
        return not self.is_running and not self.is_out_of_budget and bool(self.owed or unfinished)

    @property
    def can_retry(self) -> bool:
        return not self.is_running and not self.is_out_of_budget and bool(self.failed)


def list_progress(study: Study) -> list[MachineProgress]:
    """Return the progress of every model rater in the order of labels, with five queries whatever the number of
    raters.
    """
    raters = list(MachineRater.objects.filter(study=study).select_related("run", "study").order_by("pk"))
    if not raters:
        return []
    counts = _count_answers(study)
    jobs = _load_last_jobs(study)
    totals = run_usage.sum_usage_by_run(rater.run_id for rater in raters if rater.run_id)
    items = Item.objects.filter(study=study).count()
    lines = []
    for rater in raters:
        by_reason = counts.get(rater.pk, {})
        reasons = [(reason, reason.replace("_", " "), number) for reason, number in sorted(by_reason.items()) if reason]
        lines.append(
            MachineProgress(
                rater,
                by_reason.get("", 0),
                [(words, number) for reason, words, number in reasons if reason in model_raters.ANSWERED],
                [(words, number) for reason, words, number in reasons if reason not in model_raters.ANSWERED],
                items - sum(by_reason.values()),
                totals.get(rater.run_id or 0),
                jobs.get(str(rater.code)),
            )
        )
    return lines


def _count_answers(study: Study) -> dict[int, dict[str, int]]:
    """Return the number of answers by rater and by the reason for a missing verdict ("" if there is a verdict)."""
    counts: dict[int, dict[str, int]] = {}
    rows = MachineRating.objects.filter(rater__study=study).order_by().values_list("rater", "failed")
    for rater, failed, number in rows.annotate(n=Count("pk")):
        counts.setdefault(rater, {})[failed] = number
    return counts


def _load_last_jobs(study: Study) -> dict[str, Job]:
    """Return the last job of each model rater by its code."""
    # Results can be large and are not needed for the page.
    rows = Job.objects.filter(kind=model_raters.KIND, subject=access.format_subject(study)).defer("result")
    # A later row of the same rater replaces the earlier one, so the last job remains.
    return {job.params.get("rater", ""): job for job in rows.select_related("run").order_by("pk")}
