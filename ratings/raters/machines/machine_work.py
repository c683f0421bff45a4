"""The job in which a machine rates: an item a unit, so that a worker that dies costs one call at most."""

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

AT_ONCE = 50  # items a unit where nothing is asked of anybody
IN_A_ROW = 3  # so many items about which the model was never heard end the job
Columns = dict[str, Any]


@jobs.handles(machines.KIND)
def rate(work: Work) -> Outcome:
    """One unit: the next item, or the next few by rules. What it says is stored before the unit after it begins."""
    rater = MachineRater.objects.select_related("study").get(code=work.params["rater"])
    owed = list(machines.owed(rater, work.params)[: 1 if rater.run_id else AT_ONCE])
    if not owed:
        return work.finish(lambda: _done(rater))
    items = Item.objects.filter(study=rater.study_id)
    place = items.filter(pk__lt=owed[0].pk).count()
    work.tell(place, items.count(), f"{rater.label}, {rater.name}")
    said = [_asked(work, rater, owed[0], place)] if rater.run_id else [_checked(item) for item in owed]
    work.commit(lambda: _store(rater, dict(zip(owed, said, strict=True)), work.params["round"]))
    return jobs.MORE


def kind_of(rater: MachineRater) -> Kind:
    return SUFFICIENCY if rater.study.kind == EVIDENCE else PLAUSIBILITY


def what_is_shown(rater: MachineRater, item: Item) -> Shown:
    """The frozen payload, the context if this machine is given it, and the payload's rows with their keys."""
    context = item.context if rater.setup.get("with_context") and item.context else None
    return Shown(item.payload, context, machine_rows.rows(item.payload))


def worst_case(rater: MachineRater, items: Iterable[Item], more: int = 0) -> Estimate | None:
    """The most that these items can come to, by the prompts they really have; None where no model is asked.

    `more` items are counted besides, each as large as the largest of them.
    """
    if rater.run is None:
        return None
    setup = Setup.from_json(rater.run.setup)
    texts = prompting.texts(setup.prompt_sha256)
    asker = casting.rater(setup, kind_of(rater), *_words(rater), Prompter(_nobody, lambda: texts, {}))
    prompts = (asker.prompt(what_is_shown(rater, item)) for item in items)
    sizes = [len(one.system.encode()) + len(one.messages[0].text.encode()) for one in prompts]
    sizes += [max(sizes, default=0)] * more
    return spending.estimate_ratings(rater.run.setup, sizes)


def _nobody(player: Player) -> Speaker:
    """For prompts that are only measured."""

    def speak(prompt: Prompt) -> Completion:
        raise AssertionError(f"{player.name} is not asked here")

    return speak


def _words(rater: MachineRater) -> tuple[str, str]:
    """The study's question and guide as they stood when this machine began."""
    return rater.setup["question"], rater.setup["guide"]


def _asked(work: Work, rater: MachineRater, item: Item, place: int) -> Columns:
    """What a model says. A provider that is away ends the job and not the item: nothing was said about that."""
    try:
        return _answer(_model(work, rater, place).rate(what_is_shown(rater, item)))
    except (Refusal, NoUsableAnswer, TooLong) as fault:
        return _nothing(units.reason(fault), str(fault))
    except (GaveUp, Held) as fault:
        if fault.reason != "context" and (fault.reason not in machines.UNSAID or _away(work, rater)):
            raise
        return _nothing(fault.reason, str(fault))


def _away(work: Work, rater: MachineRater) -> bool:
    """Whether it is the provider that fails: the items before this one failed so as well, and are owed again then.

    One item that a provider cannot take must not keep a machine from all others.
    """
    latest = rater.ratings.order_by("-at", "-pk")[: IN_A_ROW - 1]
    unsaid = [rating.pk for rating in latest if rating.failed in machines.UNSAID]
    if len(unsaid) < IN_A_ROW - 1:
        return False

    def take_back() -> None:
        rater.ratings.filter(pk__in=unsaid).delete()
        _changed(rater)

    work.commit(take_back)
    return True


def _model(work: Work, rater: MachineRater, place: int) -> LLMRater:
    params = work.params
    same = machines.jobs_of(rater).filter(params__round=params["round"], pk__lte=work.job.pk)
    known = tuple(same.order_by("pk").values_list("pk", flat=True))
    return players.of_ratings(work.lease, kind_of(rater), *_words(rater), place, known)


def _answer(judged: Judgement) -> Columns:
    if judged.verdict is None:
        return {**_nothing(machines.CANNOT_JUDGE, ""), "marks": list(judged.marks), "reasoning": judged.reason}
    return {
        "verdict": judged.verdict, "confidence": judged.confidence, "marks": list(judged.marks),
        "reasoning": judged.reason, "failed": "", "error": "",
    }  # fmt: skip


def _checked(item: Item) -> Columns:
    found = machine_checker.rate(item.payload)
    if found.verdict is None:
        return _nothing(machines.UNDECIDABLE, "no amount in the item could be compared with another")
    return {
        "verdict": found.verdict, "confidence": None, "marks": list(found.marks), "reasoning": found.reason,
        "failed": "", "error": "",
    }  # fmt: skip


def _nothing(failed: str, error: str) -> Columns:
    return {
        "verdict": None, "confidence": None, "marks": [], "reasoning": "", "failed": failed[:24], "error": error[:4000],
    }  # fmt: skip


def _store(rater: MachineRater, said: Mapping[Item, Columns], round: int) -> None:
    for item, columns in said.items():
        columns = {**columns, "payload_sha256": item.payload_sha256, "at": timezone.now(), "round": round}
        MachineRating.objects.update_or_create(rater=rater, item=item, defaults=columns)
    _changed(rater)


def _changed(rater: MachineRater) -> None:
    """What was computed of its answers is stale: no clock tells, two workers' may differ."""
    MachineRater.objects.filter(pk=rater.pk).update(changes=F("changes") + 1)


def _done(rater: MachineRater) -> Outcome:
    """The job's result and a line in the study's log: numbers of items, nothing of what was said."""
    now = machines.standing(rater)
    failed = "".join(f", {number} {reason.replace('_', ' ')}" for reason, number in sorted(now.failed.items()))
    said = f"{rater.label}, {rater.name}: {now.rated} of {now.items} items rated{failed}"
    failures = dict(now.failed)
    content = MachineRated(rater=rater.label, name=rater.name, rated=now.rated, items=now.items, failed=failures)
    log(rater.study, content)
    return {"said": said, "rated": now.rated, "items": now.items, "failed": failures}
