"""Model raters: a model, or the rule-based checker, receives the frozen payload that people see, and no more.

Its answers are in separate tables, so no number about people can include them, and are shown nowhere before the study
is unblinded. A request is a job: one item is one unit, answered items are never sent again, and failed items stay
failed until somebody requests a retry.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Unpack
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from ratings.models import EVIDENCE, Item, MachineRater, MachineRating, Study
from ratings.models.study_events import MachineOrdered
from ratings.protocol import study_protocol
from ratings.studies import SealedError, StudyError, access
from ratings.studies.lifecycle import log_event
from simulation.casts import cast_availability
from simulation.jobs import jobs
from simulation.models import Job, Run
from simulation.runs import RunLimits, RunOptions, control, create

KIND: Final = "machine_rating"
CHECKER, CHECKER_NAME = "checker", "WetBench checker"
MAX_ITEMS: Final = 32_767  # an item's position is the number of its calls in the call log
CANNOT_JUDGE, UNDECIDABLE = "cannot_judge", "undecidable"
ANSWERED: Final = (CANNOT_JUDGE, UNDECIDABLE)  # answers without a verdict; not retried
NO_RESPONSE: Final = ("bad_request", "provider_unavailable")  # the model never responded to the item
_NEEDS_PERSON = ("credentials", "bad_request")  # reasons that a person must fix


class MachineAnswer(NamedTuple):
    """A model's answer to an item. `verdict` is None if it gave none; `failed` has the reason."""

    verdict: bool | None
    confidence: int | None
    marks: tuple[str, ...]
    failed: str = ""


class MachineName(NamedTuple):
    """The public name of a model rater. `kind` is "machine" for a model, "checker" for the rules."""

    name: str
    kind: str


class RequestResult(NamedTuple):
    """The result of a request. `job` is None if nothing was left to rate; `owed` is the number of items left to rate."""

    rater: MachineRater
    job: Job | None
    owed: int


class MachineCounts(NamedTuple):
    """Progress of a model rater: items rated, answers without a verdict by reason, items of the study."""

    rated: int
    failed: Mapping[str, int]
    items: int


def request_ratings(
    study: Study,
    cast: str,
    *,
    context: bool | None = None,
    retry: bool = False,
    by: User | None = None,
    **terms: Unpack[RunOptions],
) -> RequestResult:
    """Start a job in which this model rates what it has not rated yet and, with `retry`, what failed.

    While a job is active, a second request returns that job. `cast` is "checker", a cast (its classifier rates) or a
    model. If `context` is None, the model receives the context only if every rater of the study sees it. Limits that
    are not given stay as they are. Raises StudyError, or a LabError if the model is not available.
    """
    _check_can_rate(study, cast)
    # Without a lock first: most requests continue an existing rater. The lock is taken where one would be created.
    rater = MachineRater.objects.filter(study=study, cast=cast).first()
    if rater is None:
        rater = _create_rater(study, cast, context, by, terms)
    else:
        _check_unchanged(rater, context, terms)
    return _request_job(rater, retry, by, terms)


def retry_job(job: Job, by: User | None = None) -> RequestResult:
    """Request ratings again by the model rater of this job, whichever of its jobs this was."""
    rater = MachineRater.objects.select_related("study").get(code=job.params["rater"])
    return request_ratings(rater.study, rater.cast, by=by)


def preview_request(study: Study, cast: str, *, context: bool | None = None) -> MachineRater:
    """Return the model rater that a request would create, unsaved, so that its cost can be shown beforehand.

    Raises like `request_ratings`.
    """
    _check_can_rate(study, cast)
    # The run is not saved, so that showing the cost reserves nothing.
    return _build_rater(
        study, cast, context, lambda rater: Run(kind="ratings", cast=cast, setup=create.freeze_run_config(rater))
    )


def describe_input(rater: MachineRater) -> str:
    """Return in words what this model rater receives."""
    return "payload and context" if rater.setup.get("with_context") else "payload alone"


def items_to_rate(rater: MachineRater, params: Mapping[str, Any]) -> QuerySet[Item]:
    """Return the items left to rate for a request with these parameters, in order."""
    # Failures of the current round are not repeated; a retry is a new round, which makes the older ones due again.
    failed_before = ~Q(failed="") & ~Q(failed__in=ANSWERED) & Q(round__lt=params.get("round", 0))
    answered = MachineRating.objects.filter(rater=rater).exclude(failed_before)
    # The primary key gives a fixed order, which the positions in the call log rely on.
    return Item.objects.filter(study=rater.study_id).exclude(pk__in=answered.values("item")).order_by("pk")


def count_progress(rater: MachineRater) -> MachineCounts:
    """Return the progress of this model rater. It consists of counts, which reveal no verdict and no source."""
    counts = rater.ratings.order_by().values_list("failed").annotate(n=Count("pk"))
    failed = {reason: number for reason, number in counts if reason}
    rated = sum(number for reason, number in counts if not reason)
    return MachineCounts(rated, failed, Item.objects.filter(study=rater.study_id).count())


def list_names(study: Study) -> dict[str, MachineName]:
    """Return the name of every model rater of a study by label. Raises SealedError before the study is unblinded."""
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; model ratings are sealed until it is unblinded")
    raters = study.machine_raters.order_by("pk").values_list("label", "name", "cast")
    return {label: MachineName(name, "checker" if cast == CHECKER else "machine") for label, name, cast in raters}


def load_answers(study: Study) -> dict[str, dict[UUID, MachineAnswer]]:
    """Return each model's answers by label and item code. Raises SealedError before the study is unblinded."""
    answers: dict[str, dict[UUID, MachineAnswer]] = {label: {} for label in list_names(study)}
    columns = ("rater__label", "item__code", "verdict", "confidence", "marks", "failed")
    ratings = MachineRating.objects.filter(rater__study=study).order_by("rater", "item__code")
    # Rows per fetch, so that a large study is not held in memory twice.
    for label, item, verdict, confidence, marks, failed in ratings.values_list(*columns).iterator(chunk_size=2000):
        answers[label][item] = MachineAnswer(verdict, confidence, tuple(marks), failed)
    return answers


def _check_can_rate(study: Study, cast: str) -> None:
    if study.is_draft:
        raise StudyError(f"{study.name} is a draft: its items are not frozen yet. Open it first.")
    if cast == CHECKER and study.kind == EVIDENCE:
        advice = "Choose a model instead."
        raise StudyError(f"The checker rates single steps, but the items of this study are records. {advice}")
    # The call log stores the position in a small integer.
    if (number := Item.objects.filter(study=study).count()) > MAX_ITEMS:
        raise StudyError(f"{study.name} has {number} items; model raters support studies of at most {MAX_ITEMS}.")


@transaction.atomic
def _create_rater(study: Study, cast: str, context: bool | None, by: User | None, terms: RunOptions) -> MachineRater:
    """Create a model rater and freeze what its answers depend on. Two simultaneous requests create only one."""
    # The study's row, because the rater's row does not exist yet and cannot be locked.
    Study.objects.select_for_update().get(pk=study.pk)
    if existing := MachineRater.objects.filter(study=study, cast=cast).first():
        return existing
    rater = _build_rater(study, cast, context, lambda frozen: create.create_rating_run(frozen, by, **terms))
    # Counted under the lock, so no two raters have the same label.
    rater.label = f"M{MachineRater.objects.filter(study=study).count() + 1}"
    rater.name, rater.created_by = rater.name[:120], by
    rater.save()
    return rater


def _build_rater(
    study: Study, cast: str, context: bool | None, make_run: Callable[[dict[str, Any]], Run]
) -> MachineRater:
    """Return an unsaved model rater, with the parts of the run configuration and the texts that its answers depend on."""
    setup: dict[str, Any] = {"with_context": _choose_context(study, cast, context)}
    if cast == CHECKER:
        return MachineRater(study=study, cast=cast, name=CHECKER_NAME, setup=setup)
    availability = cast_availability.freeze_rater(cast)
    run = make_run(availability)
    setup |= {"question": study.question, "guide": study.guide, "guide_version": study.guide_version}
    frozen = run.setup
    setup |= {"models": frozen["models"], "rater": frozen["cast"]["rater"], "prompt_set": frozen["prompt_set"]}
    return MachineRater(study=study, cast=cast, name=availability["cast"]["rater"]["model"], run=run, setup=setup)


def _choose_context(study: Study, cast: str, requested: bool | None) -> bool:
    """Return whether the context is sent with the payload. The checker reads one step and does not use it."""
    arms = study_protocol.load_protocol(study.protocol).display.context
    if requested and (cast == CHECKER or study.kind == EVIDENCE or True not in arms):
        raise StudyError("No rater of this study sees a context, and the checker does not use it: omit --context.")
    if cast == CHECKER or study.kind == EVIDENCE:
        return False
    # By default the model receives the context only if every rater sees it; otherwise the comparison with people would
    # be unfair.
    return all(arms) if requested is None else requested


def _check_unchanged(rater: MachineRater, context: bool | None, terms: RunOptions) -> None:
    """Raise StudyError if this request would change the input of a model rater: its answers must be comparable."""
    if context is not None and context != rater.setup.get("with_context"):
        received = f"received the {describe_input(rater)} from the start"
        raise StudyError(f"{rater.label} ({rater.name}) {received} and must continue with it.")
    frozen = rater.setup.get("prompt_set", {})
    if (requested_set := terms.get("prompt_set")) and frozen:
        name_part, _, version = requested_set.partition("@")
        # A version may be abbreviated, as it is displayed.
        if name_part != frozen["name"] or not frozen["sha256"].startswith(version):
            used = f"has used the prompts {frozen['name']}@{frozen['sha256'][:12]}"
            raise StudyError(f"{rater.label} ({rater.name}) {used} and must continue with them.")


def list_jobs(rater: MachineRater) -> QuerySet[Job]:
    """Return every job of this model rater."""
    return Job.objects.filter(kind=KIND, subject=access.format_subject(rater.study), params__rater=str(rater.code))


@transaction.atomic
def _request_job(rater: MachineRater, retry: bool, by: User | None, terms: RunOptions) -> RequestResult:
    """Return the active job of this rater, or a new one. Two active jobs would pay for the same items twice.

    A request waits here for other requests, and for anybody who retries the run's last job.
    """
    # Two requests must not both find that there is no active job.
    MachineRater.objects.select_for_update().get(pk=rater.pk)
    if rater.run:
        _update_limits(rater, rater.run, terms)
    params = _job_params(rater, retry)
    n_left = items_to_rate(rater, params).count()
    if not n_left:
        return RequestResult(rater, None, 0)
    job = jobs.request_job(KIND, params, subject=access.format_subject(rater.study), user=by, run=rater.run)
    order: dict[str, Any] = {"rater": rater.label, "name": rater.name, "items": n_left}
    log_event(rater.study, MachineOrdered(**order, with_context=bool(rater.setup.get("with_context"))), by)
    return RequestResult(rater, job, n_left)


def _job_params(rater: MachineRater, retry: bool) -> dict[str, Any]:
    """Return the parameters of the active job or, without one, those of the next job.

    A new job of the same round continues where the last one ended. A new round sends failed items again.
    """
    jobs_of_rater = list_jobs(rater).order_by("-pk")
    # A request while a job is active joins that job, with its parameters.
    if active := jobs_of_rater.filter(status__in=Job.RUNNABLE).first():
        if retry and not active.params["round"]:
            raise StudyError(f"{rater.label} ({rater.name}) is still rating. Retry failed items after it has ended.")
        return dict(active.params)
    latest = jobs_of_rater.first()
    params: dict[str, Any] = dict(latest.params) if latest else {"rater": str(rater.code), "round": 0}
    return {**params, "round": params["round"] + 1} if retry and latest else params


def _update_limits(rater: MachineRater, run: Run, terms: RunOptions) -> None:
    """Apply the given limits to the run, whose row is locked. If a person fixed something, reopen its rate limiters."""
    latest = list_jobs(rater).order_by("-pk").first()
    # A wrong key or a rejected request paused the run; a new request means that somebody has corrected it.
    if (latest and latest.reason in _NEEDS_PERSON) or rater.ratings.filter(failed__in=_NEEDS_PERSON).exists():
        control.reopen_limiters(run)
    limits: RunLimits = {name: value for name, value in terms.items() if name in RunLimits.__annotations__}  # type: ignore[assignment]
    control.set_limits(run, **limits)
