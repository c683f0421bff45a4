"""Episodes as a whole: their cursor, their end, the verdicts on them."""

from collections.abc import Iterator

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q

from simulation.models import Episode, EvidenceReview
from wetbench_site.maintenance.verify.form import Wrong, check, rows, wrong


@check("numbers of steps", "the steps of an episode are numbered from 1 without a gap, up to its cursor", Episode)
def numbers_of_steps() -> Iterator[Wrong]:
    counted = Episode.objects.order_by("pk").annotate(
        n=Count("transitions"), first=Min("transitions__number"), last=Max("transitions__number")
    )
    broken = counted.exclude(n=0, next_number=1).exclude(first=1, last=F("n"), next_number=F("n") + 1)
    for code, n, first, last, cursor in rows(broken.values_list("code", "n", "first", "last", "next_number")):
        yield wrong(Episode, code, f"steps 1 to {cursor - 1}", f"{n} steps, {first} to {last}")


@check(
    "pending actions", "an action waits for its answer in the phase of the transition model, and in no other", Episode
)
def pending_actions() -> Iterator[Wrong]:
    astray = Episode.objects.order_by("pk").filter(Q(phase="transition") ^ Q(pending__isnull=False))
    for code, phase in rows(astray.values_list("code", "phase")):
        expected = "a pending action" if phase == "transition" else "none pending"
        yield wrong(Episode, code, f"in phase {phase} {expected}", "the other")


@check(
    "ends of submitted and rejected episodes",
    "an episode is over as its last steps have it, and one that was submitted has one verdict that ended it",
    Episode,
)
def how_episodes_ended() -> Iterator[Wrong]:
    primary = Q(reviews__primary=True)
    judged = Episode.objects.order_by("pk").filter(status="submitted").annotate(n=Count("reviews", filter=primary))
    for code, n in rows(judged.exclude(n=1).values_list("code", "n")):
        yield wrong(Episode, code, "submitted, with one verdict that ended it", f"{n} of them")
    out = (
        Episode.objects.order_by("pk")
        .filter(status="rejected_out")
        .annotate(
            n=Count("transitions", filter=Q(transitions__accepted=False, transitions__number__gte=F("next_number") - 3))
        )
    )
    for code, n in rows(out.exclude(n=3).values_list("code", "n")):
        yield wrong(Episode, code, "three rejections running", f"{n} in its last three steps")
    short = Episode.objects.order_by("pk").filter(
        status="truncated", experiment_sha256=F("experiment__sha256"), next_number__lte=F("experiment__max_steps")
    )
    for code, cursor, most in rows(short.values_list("code", "next_number", "experiment__max_steps")):
        yield wrong(Episode, code, f"out of its {most} steps", f"{cursor - 1} steps")


@check("retries of replicates", "of each replicate the last try counts, and no other", Episode)
def tries_of_replicates() -> Iterator[Wrong]:
    again = Episode.objects.filter(retry_of=OuterRef("pk"))
    both = Episode.objects.order_by("pk").filter(Exists(again), counts=True)
    for code in rows(both.values_list("code", flat=True)):
        yield wrong(Episode, code, "tried again, and counted no more", "it counts")
    apart = Episode.objects.order_by("pk").filter(retry_of__isnull=False).exclude(
        retry_of__experiment=F("experiment"), retry_of__cast=F("cast"), retry_of__replicate=F("replicate")
    )  # fmt: skip
    for code in rows(apart.values_list("code", flat=True)):
        yield wrong(Episode, code, "the experiment, cast and replicate of what it tries again", "others")


@check("verdicts of reviews", "the verdict of a review is the one in its text", EvidenceReview)
def verdicts() -> Iterator[Wrong]:
    reviews = EvidenceReview.objects.order_by("pk").values_list("code", "sufficient", "verdict")
    for code, sufficient, verdict in rows(reviews):
        if verdict.get("sufficient") is not sufficient:
            yield wrong(EvidenceReview, code, f"sufficient: {verdict.get('sufficient')}", sufficient)


CHECKS = (numbers_of_steps, pending_actions, how_episodes_ended, tries_of_replicates, verdicts)
