"""The machine raters of a study as its page shows them: how far each is and what it took, and nothing of what it said."""

from dataclasses import dataclass

from django.db.models import Count

from ratings.models import Item, MachineRater, MachineRating, Study
from ratings.raters.machines import machines
from ratings.studies import job_access
from simulation.calls import spending
from simulation.calls.spending import Totals
from simulation.models import Job

_STATES = {
    "queued": ("queued", ""),
    "running": ("at work", "info"),
    "waiting": ("waiting", "info"),
    "failed": ("stopped", "danger"),
    "cancelled": ("stopped by hand", "warn"),
}


@dataclass(frozen=True)
class Line:
    """One machine rater: items rated, answers without a verdict, failures (both by reason), items never asked about."""

    rater: MachineRater
    rated: int
    without: list[tuple[str, int]]
    failed: list[tuple[str, int]]
    owed: int
    totals: Totals | None  # None: it made no call
    job: Job | None  # the last one

    @property
    def shown(self) -> str:
        return machines.shown(self.rater)

    @property
    def failures(self) -> int:
        return sum(number for _, number in self.failed)

    @property
    def live(self) -> bool:
        return self.job is not None and self.job.status in Job.RUNNABLE

    @property
    def state(self) -> tuple[str, str]:
        """In words, and the tone of its pill."""
        if self.live and self.rater.run and self.rater.run.paused_at:
            return "paused", "warn"
        if self.job is not None and self.job.status != "done":
            return _STATES[self.job.status]
        if self.owed:
            return "owes answers", "warn"
        return ("done, some failed", "warn") if self.failed else ("done", "ok")

    @property
    def error(self) -> str:
        """What its last job ended with."""
        return self.job.error if self.job is not None and self.job.status == "failed" else ""

    @property
    def by_budget(self) -> bool:
        """Whether it stopped because its budget is used up: it goes on with a larger one alone."""
        return self.job is not None and self.job.status == "failed" and self.job.reason == "budget"

    @property
    def may_go_on(self) -> bool:
        unfinished = self.job is not None and self.job.status in ("failed", "cancelled")
        return not self.live and not self.by_budget and bool(self.owed or unfinished)

    @property
    def may_retry(self) -> bool:
        return not self.live and not self.by_budget and bool(self.failed)


def lines(study: Study) -> list[Line]:
    """Every machine rater in the order of its label: five queries, whatever their number."""
    raters = list(MachineRater.objects.filter(study=study).select_related("run", "study").order_by("pk"))
    if not raters:
        return []
    counts = _counts(study)
    jobs = _jobs(study)
    totals = spending.of_runs(rater.run_id for rater in raters if rater.run_id)
    items = Item.objects.filter(study=study).count()
    made = []
    for rater in raters:
        found = counts.get(rater.pk, {})
        named = [(reason, reason.replace("_", " "), number) for reason, number in sorted(found.items()) if reason]
        made.append(
            Line(
                rater,
                found.get("", 0),
                [(words, number) for reason, words, number in named if reason in machines.SETTLED],
                [(words, number) for reason, words, number in named if reason not in machines.SETTLED],
                items - sum(found.values()),
                totals.get(rater.run_id or 0),
                jobs.get(str(rater.code)),
            )
        )
    return made


def _counts(study: Study) -> dict[int, dict[str, int]]:
    """Answers by rater and by why they have no verdict ("" where they have one)."""
    counts: dict[int, dict[str, int]] = {}
    rows = MachineRating.objects.filter(rater__study=study).order_by().values_list("rater", "failed")
    for rater, failed, number in rows.annotate(n=Count("pk")):
        counts.setdefault(rater, {})[failed] = number
    return counts


def _jobs(study: Study) -> dict[str, Job]:
    """The last job of each machine rater by its code."""
    rows = Job.objects.filter(kind=machines.KIND, subject=job_access.subject(study)).defer("result")
    return {job.params.get("rater", ""): job for job in rows.select_related("run").order_by("pk")}
