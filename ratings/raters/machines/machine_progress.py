"""The progress and cost of a study's model raters for its page, without any of their answers."""

from dataclasses import dataclass

from django.db.models import Count

from ratings.models import Item, MachineRater, MachineRating, Study
from ratings.raters.machines import model_raters
from ratings.studies import job_access
from simulation.calls import run_usage
from simulation.calls.run_usage import UsageTotals
from simulation.models import Job

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
    rows = Job.objects.filter(kind=model_raters.KIND, subject=job_access.format_subject(study)).defer("result")
    # A later row of the same rater replaces the earlier one, so the last job remains.
    return {job.params.get("rater", ""): job for job in rows.select_related("run").order_by("pk")}
