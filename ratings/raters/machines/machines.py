"""Machines as raters: a model, or the rule-based checker, is given the frozen payload that people see, and no more.

Its answers are in tables of their own, so that no number of people can contain them, and show nowhere before the study is
unblinded. An order is a job: an item is one unit, what was answered is never asked again, and what failed is kept as
failed until somebody orders it to be retried.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Unpack
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from ratings.models import EVIDENCE, Item, MachineRater, MachineRating, Study
from ratings.models.study_events import MachineOrdered
from ratings.protocol import protocols
from ratings.raters.machines import machine_checker
from ratings.studies import SealedError, StudyError, job_access
from ratings.studies.lifecycle import log
from simulation.casts import roster
from simulation.jobs import jobs
from simulation.models import Job, Run
from simulation.runs import Limits, Terms, control, queueing

KIND: Final = "machine_rating"
CHECKER: Final = "checker"
MOST_ITEMS: Final = 32_767  # an item's place is the number of its calls in the ledger
CANNOT_JUDGE, UNDECIDABLE = "cannot_judge", machine_checker.UNDECIDABLE
SETTLED: Final = (CANNOT_JUDGE, UNDECIDABLE)  # answers, though they hold no verdict: not retried
UNSAID: Final = ("bad_request", "provider_unavailable")  # the model was never heard about the item
_BY_HAND = ("credentials", "bad_request")  # what a job ended for until somebody put it right


class Answer(NamedTuple):
    """What a machine said of an item. `verdict` None: it could not tell, or gave no usable answer (`failed` says which)."""

    verdict: bool | None
    confidence: int | None
    marks: tuple[str, ...]
    failed: str = ""


class Named(NamedTuple):
    """A machine rater as people know it. `kind` is "machine", or "checker" for the rules."""

    name: str
    kind: str


class Ordered(NamedTuple):
    """What an order came to. `job` is None where nothing was left to rate."""

    rater: MachineRater
    job: Job | None
    owed: int


class Standing(NamedTuple):
    """How far a machine rater is: items rated, answers without a verdict by their reason, items of the study."""

    rated: int
    failed: Mapping[str, int]
    items: int


def order(
    study: Study,
    cast: str,
    *,
    context: bool | None = None,
    retry: bool = False,
    by: User | None = None,
    **terms: Unpack[Terms],
) -> Ordered:
    """Have this machine rate what it has not rated yet; with `retry` also what failed. Asked again, it goes on.

    `cast` is "checker", a cast (its classifier rates) or a model. `context` None: beside the payload if every rater of
    the study sees it. A limit that is not named stays as it is. StudyError, or a LabError of who cannot play, says what
    is wrong.
    """
    _refuse(study, cast)
    rater = MachineRater.objects.filter(study=study, cast=cast).first()
    if rater is None:
        rater = _seat(study, cast, context, by, terms)
    else:
        _same(rater, context, terms)
    return _one_job(rater, retry, by, terms)


def again(job: Job, by: User | None = None) -> Ordered:
    """Try such a job again: its rater goes on where it stands, whichever of its jobs this was."""
    rater = MachineRater.objects.select_related("study").get(code=job.params["rater"])
    return order(rater.study, rater.cast, by=by)


def planned(study: Study, cast: str, *, context: bool | None = None) -> MachineRater:
    """The machine rater that an order would make, unsaved: to say before what it may cost. Refuses what `order` does."""
    _refuse(study, cast)
    setup: dict[str, Any] = {"with_context": _context(study, cast, context)}
    if cast == CHECKER:
        return MachineRater(study=study, cast=cast, name=machine_checker.NAME, setup=setup)
    made = roster.rater(cast)
    run = Run(kind="ratings", cast=cast, setup=queueing.frozen(made))
    setup |= _asked_with(study, run.setup)
    return MachineRater(study=study, cast=cast, name=made["cast"]["rater"]["model"], run=run, setup=setup)


def shown(rater: MachineRater) -> str:
    """What it is given, in words."""
    return "payload and context" if rater.setup.get("with_context") else "payload alone"


def owed(rater: MachineRater, params: Mapping[str, Any]) -> QuerySet[Item]:
    """What is left to rate in an order with these params, in the order of their places."""
    failed_before = ~Q(failed="") & ~Q(failed__in=SETTLED) & Q(round__lt=params.get("round", 0))
    settled = MachineRating.objects.filter(rater=rater).exclude(failed_before)
    return Item.objects.filter(study=rater.study_id).exclude(pk__in=settled.values("item")).order_by("pk")


def standing(rater: MachineRater) -> Standing:
    """Counts alone: nothing in them tells a verdict or a source."""
    found = rater.ratings.order_by().values_list("failed").annotate(n=Count("pk"))
    failed = {reason: number for reason, number in found if reason}
    rated = sum(number for reason, number in found if not reason)
    return Standing(rated, failed, Item.objects.filter(study=rater.study_id).count())


def names(study: Study) -> dict[str, Named]:
    """Every machine rater of an unblinded study by label. SealedError before."""
    _unsealed(study)
    rows_ = study.machine_raters.order_by("pk").values_list("label", "name", "cast")
    return {label: Named(name, "checker" if cast == CHECKER else "machine") for label, name, cast in rows_}


def rows(study: Study) -> dict[str, dict[UUID, Answer]]:
    """What each machine said, by label and item code: one query. SealedError before the study is unblinded."""
    _unsealed(study)
    found: dict[str, dict[UUID, Answer]] = {label: {} for label in names(study)}
    columns = ("rater__label", "item__code", "verdict", "confidence", "marks", "failed")
    ratings = MachineRating.objects.filter(rater__study=study).order_by("rater", "item__code")
    for label, item, verdict, confidence, marks, failed in ratings.values_list(*columns).iterator(chunk_size=2000):
        found[label][item] = Answer(verdict, confidence, tuple(marks), failed)
    return found


def _unsealed(study: Study) -> None:
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; what machines said is sealed until it is unblinded")


def _refuse(study: Study, cast: str) -> None:
    if study.is_draft:
        raise StudyError(f"{study.name} is a draft: it has no frozen items yet. Open it first.")
    if cast == CHECKER and study.kind == EVIDENCE:
        raise StudyError("The checker judges single steps; the items of this study are records. Name a model instead.")
    if (number := Item.objects.filter(study=study).count()) > MOST_ITEMS:
        raise StudyError(f"{study.name} has {number} items; a machine rates studies of at most {MOST_ITEMS}.")


@transaction.atomic
def _seat(study: Study, cast: str, context: bool | None, by: User | None, terms: Terms) -> MachineRater:
    """A new machine rater, with all that its answers depend on frozen. Two orders at once make one."""
    Study.objects.select_for_update().get(pk=study.pk)
    if taken := MachineRater.objects.filter(study=study, cast=cast).first():
        return taken
    setup: dict[str, Any] = {"with_context": _context(study, cast, context)}
    name, run = machine_checker.NAME, None
    if cast != CHECKER:
        made = roster.rater(cast)
        run = queueing.queue_ratings(made, by, **terms)
        name = made["cast"]["rater"]["model"]
        setup |= _asked_with(study, run.setup)
    label = f"M{MachineRater.objects.filter(study=study).count() + 1}"
    return MachineRater.objects.create(
        study=study, label=label, cast=cast, name=name[:120], run=run, setup=setup, created_by=by
    )


def _asked_with(study: Study, frozen: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run's setup and the study's words, what a model's answers depend on."""
    asked = {"question": study.question, "guide": study.guide, "guide_version": study.guide_version}
    made = {"models": frozen["models"], "rater": frozen["cast"]["rater"], "prompt_set": frozen["prompt_set"]}
    return {**asked, **made}


def _context(study: Study, cast: str, wanted: bool | None) -> bool:
    """Whether the context goes with the payload. The checker reads one step and has no use for it."""
    arms = protocols.stored(study.protocol).display.context
    if wanted and (cast == CHECKER or study.kind == EVIDENCE or True not in arms):
        raise StudyError("No rater of this study sees a context (and the checker reads none): leave --context out.")
    if cast == CHECKER or study.kind == EVIDENCE:
        return False
    return all(arms) if wanted is None else wanted


def _same(rater: MachineRater, context: bool | None, terms: Terms) -> None:
    """A machine that has begun goes on as it began: answers to two questions would be two raters' answers."""
    if context is not None and context != rater.setup.get("with_context"):
        raise StudyError(f"{rater.label} ({rater.name}) was given the {shown(rater)} from the start; it goes on so.")
    frozen = rater.setup.get("prompt_set", {})
    if (name := terms.get("prompt_set")) and frozen:
        called, _, version = name.partition("@")
        if called != frozen["name"] or not frozen["sha256"].startswith(version):
            told = f"{frozen['name']}@{frozen['sha256'][:12]}"
            raise StudyError(f"{rater.label} ({rater.name}) was asked with the prompts {told}; it goes on with them.")


def jobs_of(rater: MachineRater) -> QuerySet[Job]:
    """Every job in which this machine rated."""
    return Job.objects.filter(kind=KIND, subject=job_access.subject(rater.study), params__rater=str(rater.code))


@transaction.atomic
def _one_job(rater: MachineRater, retry: bool, by: User | None, terms: Terms) -> Ordered:
    """The job of this rater that is under way, or a new one: never two, which would ask and pay for the same items twice.

    Orders wait here for each other, and for whoever has the run's last job tried again.
    """
    MachineRater.objects.select_for_update().get(pk=rater.pk)
    if rater.run:
        _funded(rater, rater.run, terms)
    params = _params(rater, retry)
    left = owed(rater, params).count()
    if not left:
        return Ordered(rater, None, 0)
    job = jobs.request(KIND, params, subject=job_access.subject(rater.study), by=by, run=rater.run)
    with_context = bool(rater.setup.get("with_context"))
    log(rater.study, MachineOrdered(rater=rater.label, name=rater.name, items=left, with_context=with_context), by)
    return Ordered(rater, job, left)


def _params(rater: MachineRater, retry: bool) -> dict[str, Any]:
    """What the job is told: what the one under way was. Jobs of one round go on from each other; a new round asks again
    what had failed."""
    own = jobs_of(rater).order_by("-pk")
    if live := own.filter(status__in=Job.RUNNABLE).first():
        if retry and not live.params["round"]:
            raise StudyError(f"{rater.label} ({rater.name}) is still rating. Retry what failed when it has ended.")
        return dict(live.params)
    latest = own.first()
    params: dict[str, Any] = dict(latest.params) if latest else {"rater": str(rater.code), "round": 0}
    return {**params, "round": params["round"] + 1} if retry and latest else params


def _funded(rater: MachineRater, run: Run, terms: Terms) -> None:
    """The run with the limits that are named now, and open again for what a person had to put right. Holds its row."""
    latest = jobs_of(rater).order_by("-pk").first()
    if (latest and latest.reason in _BY_HAND) or rater.ratings.filter(failed__in=_BY_HAND).exists():
        control.reopen(run)
    limits: Limits = {name: value for name, value in terms.items() if name in Limits.__annotations__}  # type: ignore[assignment]
    control.fund(run, **limits)
