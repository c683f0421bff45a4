"""Checks of episodes: step numbers, pending actions, ends and verdicts."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from simulation.models import Episode, EvidenceReview
from wetbench_site.maintenance.verify.checks import Violation, build_check, build_violation, iter_rows


@build_check(
    "numbers of steps", "the steps of an episode are numbered from 1 to its next number, without gaps", Episode
)
def check_step_numbers() -> Iterator[Violation]:
    counted = Episode.objects.order_by("pk").annotate(
        n=Count("transitions"), first=Min("transitions__number"), last=Max("transitions__number")
    )
    broken = counted.exclude(n=0, next_number=1).exclude(first=1, last=F("n"), next_number=F("n") + 1)
    for code, n, first, last, cursor in iter_rows(broken.values_list("code", "n", "first", "last", "next_number")):
        yield build_violation(Episode, code, f"steps 1 to {cursor - 1}", f"{n} steps, {first} to {last}")


@build_check("pending actions", "an episode has a pending action in the transition phase, and only then", Episode)
def check_pending_actions() -> Iterator[Violation]:
    inconsistent = Episode.objects.order_by("pk").filter(Q(phase="transition") ^ Q(pending__isnull=False))
    for code, phase in iter_rows(inconsistent.values_list("code", "phase")):
        expected = "a pending action" if phase == "transition" else "no pending action"
        yield build_violation(Episode, code, f"in phase {phase}: {expected}", "the opposite")


@build_check(
    "ends of submitted and rejected episodes",
    "the end of an episode follows from its last steps, and a submitted one has one primary verdict",
    Episode,
)
def check_episode_ends() -> Iterator[Violation]:
    primary = Q(reviews__primary=True)
    submitted = Episode.objects.order_by("pk").filter(status="submitted").annotate(n=Count("reviews", filter=primary))
    for code, n in iter_rows(submitted.exclude(n=1).values_list("code", "n")):
        yield build_violation(Episode, code, "submitted, with one primary verdict", f"{n} of them")
    rejected_out = (
        Episode.objects.order_by("pk")
        .filter(status="rejected_out")
        .annotate(
            n=Count("transitions", filter=Q(transitions__accepted=False, transitions__number__gte=F("next_number") - 3))
        )
    )
    for code, n in iter_rows(rejected_out.exclude(n=3).values_list("code", "n")):
        yield build_violation(Episode, code, "three rejections in a row", f"{n} in its last three steps")
    # Only with the experiment's current data: a reloaded experiment can have another limit.
    truncated = Episode.objects.order_by("pk").filter(
        status="truncated", experiment_sha256=F("experiment__sha256"), next_number__lte=F("experiment__max_steps")
    )
    for code, cursor, max_steps in iter_rows(truncated.values_list("code", "next_number", "experiment__max_steps")):
        yield build_violation(Episode, code, f"all {max_steps} steps used", f"{cursor - 1} steps")


@build_check("retries of replicates", "only the last retry of a replicate counts", Episode)
def check_retries() -> Iterator[Violation]:
    retries = Episode.objects.filter(retry_of=OuterRef("pk"))
    superseded = Episode.objects.order_by("pk").filter(Exists(retries), counts=True)
    for code in iter_rows(superseded.values_list("code", flat=True)):
        yield build_violation(Episode, code, "retried, so it does not count", "it counts")
    different = Episode.objects.order_by("pk").filter(retry_of__isnull=False).exclude(
        retry_of__experiment=F("experiment"), retry_of__cast=F("cast"), retry_of__replicate=F("replicate")
    )  # fmt: skip
    for code in iter_rows(different.values_list("code", flat=True)):
        yield build_violation(
            Episode, code, "the experiment, cast and replicate of the episode it retries", "different ones"
        )


@build_check("verdicts of reviews", "the verdict of a review is that of its stored reply", EvidenceReview)
def check_review_verdicts() -> Iterator[Violation]:
    reviews = EvidenceReview.objects.order_by("pk").values_list("code", "sufficient", "verdict")
    for code, sufficient, verdict in iter_rows(reviews):
        if verdict.get("sufficient") is not sufficient:
            yield build_violation(EvidenceReview, code, f"sufficient: {verdict.get('sufficient')}", sufficient)


CHECKS = (check_step_numbers, check_pending_actions, check_episode_ends, check_retries, check_review_verdicts)
