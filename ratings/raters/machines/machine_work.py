"""The job of a model rater: one item per unit, so that a worker that dies costs one call at most."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import F
from django.utils import timezone

from ratings.blinding import machine_rows
from ratings.models import EVIDENCE, Item, MachineRater, MachineRating
from ratings.models.study_events import MachineRated
from ratings.raters.machines import machine_checker, machines
from ratings.studies.lifecycle import log
from simulation.calls import spending
from simulation.casts import Player, Setup, casting, prompting
from simulation.casts.casting import Prompter
from simulation.casts.estimating import Estimate
from simulation.engine import players
from simulation.jobs import Outcome, Work, jobs
from simulation.leases import GaveUp, Held, units
from simulation.llm import NoUsableAnswer, Refusal, TooLong
from simulation.llm.rater import PLAUSIBILITY, SUFFICIENCY, Judgement, Kind, LLMRater, Shown
from simulation.providers import Prompt, Speaker
from simulation.providers.base import Completion

# The checker makes no calls, so committing every item by itself would only add transactions.
AT_ONCE = 50  # items per unit for the checker, which makes no calls
IN_A_ROW = 3  # consecutive items without any response end the job
Columns = dict[str, Any]


@jobs.handles(machines.KIND)
def rate(work: Work) -> Outcome:
    """Run one unit: rate the next item, or the next few by the checker. Answers are stored before the next unit begins."""
    rater = MachineRater.objects.select_related("study").get(code=work.params["rater"])
    # One item per unit for a model: a worker that dies costs one call at most.
    items_left = list(machines.owed(rater, work.params)[: 1 if rater.run_id else AT_ONCE])
    if not items_left:
        return work.finish(lambda: _done(rater))
    items = Item.objects.filter(study=rater.study_id)
    # The position is the number of the item's calls in the call log, so it must be the same when the unit is repeated.
    position = items.filter(pk__lt=items_left[0].pk).count()
    work.tell(position, items.count(), f"{rater.label}, {rater.name}")
    answers = (
        [_asked(work, rater, items_left[0], position)] if rater.run_id else [_checked(item) for item in items_left]
    )
    # The answers and the progress are one commit, so a restarted worker finds either both or none.
    work.commit(lambda: _store(rater, dict(zip(items_left, answers, strict=True)), work.params["round"]))
    return jobs.MORE


def kind_of(rater: MachineRater) -> Kind:
    return SUFFICIENCY if rater.study.kind == EVIDENCE else PLAUSIBILITY


def what_is_shown(rater: MachineRater, item: Item) -> Shown:
    """Return the frozen payload, the context if this model receives it, and the payload's rows with their keys."""
    context = item.context if rater.setup.get("with_context") and item.context else None
    return Shown(item.payload, context, machine_rows.rows(item.payload))


def worst_case(rater: MachineRater, items: Iterable[Item], more: int = 0) -> Estimate | None:
    """Return the maximum cost of these items with their real prompts; None for the checker.

    `more` items are added, each as large as the largest of them.
    """
    if rater.run is None:
        return None
    setup = Setup.from_json(rater.run.setup)
    texts = prompting.texts(setup.prompt_sha256)
    rater_role = casting.rater(setup, kind_of(rater), *_words(rater), Prompter(_nobody, lambda: texts, {}))
    prompts = (rater_role.prompt(what_is_shown(rater, item)) for item in items)
    # Bytes are an upper bound for tokens.
    sizes = [len(one.system.encode()) + len(one.messages[0].text.encode()) for one in prompts]
    # Items that are not known yet are estimated with the largest known prompt, so that the budget is never too small.
    sizes += [max(sizes, default=0)] * more
    return spending.estimate_ratings(rater.run.setup, sizes)


def _nobody(player: Player) -> Speaker:
    """Return a speaker for prompts that are only measured, never sent."""

    def speak(prompt: Prompt) -> Completion:
        # A call here would cost money without a lease and without a row in the call log.
        raise AssertionError(f"{player.name} is not asked here")

    return speak


def _words(rater: MachineRater) -> tuple[str, str]:
    """Return the study's question and guide at the time this model began."""
    return rater.setup["question"], rater.setup["guide"]


def _asked(work: Work, rater: MachineRater, item: Item, place: int) -> Columns:
    """Return the model's answer. An unavailable provider ends the job, because it says nothing about the item."""
    try:
        return _answer(_model(work, rater, place).rate(what_is_shown(rater, item)))
    # These errors are about the item: the model responded, or its prompt cannot fit. They are stored and the next item
    # follows.
    except (Refusal, NoUsableAnswer, TooLong) as error:
        return _nothing(units.reason(error), str(error))
    except (GaveUp, Held) as error:
        # An error about the context concerns this item alone, even though the provider reported it.
        if error.reason != "context" and (error.reason not in machines.UNSAID or _away(work, rater)):
            raise
        return _nothing(error.reason, str(error))


def _away(work: Work, rater: MachineRater) -> bool:
    """Return whether the provider fails, not the item: the items before this one failed in the same way, and are then left unrated."""
    # One item that a provider cannot process must not keep a model from all others.
    last_ratings = rater.ratings.order_by("-at", "-pk")[: IN_A_ROW - 1]
    without_response = [rating.pk for rating in last_ratings if rating.failed in machines.UNSAID]
    if len(without_response) < IN_A_ROW - 1:
        return False

    def take_back() -> None:
        rater.ratings.filter(pk__in=without_response).delete()
        _changed(rater)

    work.commit(take_back)
    return True


def _model(work: Work, rater: MachineRater, place: int) -> LLMRater:
    params = work.params
    # Answers of earlier jobs of the round are replayed from the call log, so that a continued round does not pay for
    # them again.
    jobs_of_round = machines.jobs_of(rater).filter(params__round=params["round"], pk__lte=work.job.pk)
    job_ids = tuple(jobs_of_round.order_by("pk").values_list("pk", flat=True))
    return players.of_ratings(work.lease, kind_of(rater), *_words(rater), place, job_ids)


def _answer(judged: Judgement) -> Columns:
    if judged.verdict is None:
        return {**_nothing(machines.CANNOT_JUDGE, ""), "marks": list(judged.marks), "reasoning": judged.reason}
    return {
        "verdict": judged.verdict, "confidence": judged.confidence, "marks": list(judged.marks),
        "reasoning": judged.reason, "failed": "", "error": "",
    }  # fmt: skip


def _checked(item: Item) -> Columns:
    verdict = machine_checker.rate(item.payload)
    if verdict.verdict is None:
        return _nothing(machines.UNDECIDABLE, "no amount in the item could be compared with another")
    return {
        "verdict": verdict.verdict, "confidence": None, "marks": list(verdict.marks), "reasoning": verdict.reason,
        "failed": "", "error": "",
    }  # fmt: skip


def _nothing(failed: str, error: str) -> Columns:
    return {
        # The widths of the two columns.
        "verdict": None, "confidence": None, "marks": [], "reasoning": "", "failed": failed[:24], "error": error[:4000],
    }  # fmt: skip


def _store(rater: MachineRater, said: Mapping[Item, Columns], round: int) -> None:
    for item, columns in said.items():
        columns = {**columns, "payload_sha256": item.payload_sha256, "at": timezone.now(), "round": round}
        # A retry replaces the failed row: an item has one answer per rater.
        MachineRating.objects.update_or_create(rater=rater, item=item, defaults=columns)
    _changed(rater)


def _changed(rater: MachineRater) -> None:
    """Increment the counter that makes stored analyses stale. A counter, because the clocks of two workers may differ."""
    MachineRater.objects.filter(pk=rater.pk).update(changes=F("changes") + 1)


def _done(rater: MachineRater) -> Outcome:
    """Return the job's result and log it: numbers of items, no answers."""
    progress = machines.standing(rater)
    failed = "".join(f", {number} {reason.replace('_', ' ')}" for reason, number in sorted(progress.failed.items()))
    message = f"{rater.label}, {rater.name}: {progress.rated} of {progress.items} items rated{failed}"
    failures = dict(progress.failed)
    content = MachineRated(
        rater=rater.label, name=rater.name, rated=progress.rated, items=progress.items, failed=failures
    )
    # Names and numbers only: the log is readable before the study is unblinded.
    log(rater.study, content)
    return {"said": message, "rated": progress.rated, "items": progress.items, "failed": failures}
