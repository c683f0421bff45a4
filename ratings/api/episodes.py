"""Episodes of the laboratory and what was done in them: for tokens of staff."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from ninja import Query, Router
from pydantic import Field

from ratings.api import cursors, forms
from ratings.api.bearer import ApiRequest, reads
from ratings.api.cursors import GONE, CursorError, Window
from simulation.lab.bench import step_from_json
from simulation.models import Episode, Transition

router = Router(tags=["laboratory"])
_LONG = ("initial", "pending", "memory", "experiment__data", "run__setup")


def _chosen_by(longest: int, said: str) -> Any:
    """A text that PostgreSQL can be asked for: it knows none with a NUL."""
    return Field("", max_length=longest, pattern=r"^[^\x00]*$", description=said)


class EpisodeWindow(Window):
    """Which episodes are asked for; empty asks for all. What there is none of gives an empty list."""

    experiment: str = _chosen_by(80, "Only of this experiment, by its short name.")
    cast: str = _chosen_by(80, "Only by this cast.")
    status: str = _chosen_by(20, "Only with this status.")


@reads(router, "/episodes", "episodes", ["episodes:read"], forms.Episodes, 400, 404)
def episodes(request: ApiRequest, window: Query[EpisodeWindow]) -> forms.Episodes:
    """Episodes, newest first."""
    found = _episodes(request).order_by("-pk").filter(**_chosen(window))
    if at := cursors.read("episodes", window.cursor):
        found = found.filter(pk__lt=_key(at[0]))
    rows, more = cursors.cut(list(found[: window.limit + 1]), window.limit)
    following = cursors.following(request, "episodes", window, [str(rows[-1].code)]) if more else None
    return forms.Episodes(data=[_told(row) for row in rows], next=following)


@reads(router, "/episodes/{uuid:code}", "episode", ["episodes:read"], forms.Episode, 404)
def episode(request: ApiRequest, code: UUID) -> forms.Episode:
    """One episode."""
    return _told(_one(request, code))


@reads(
    router, "/episodes/{uuid:code}/transcript", "transcript", ["transcripts:read"], forms.Transcript, 400, 404
)  # fmt: skip
def transcript(request: ApiRequest, code: UUID, window: Query[Window]) -> forms.Transcript:
    """What was done and what came of it, step by step, as a classifier reads it."""
    row, form = _one(request, code), f"transcript/{code}"
    at = cursors.read(form, window.cursor)
    found = row.transitions.filter(number__gt=at[0] if at else 0).order_by("number")
    steps, more = cursors.cut(list(found[: window.limit + 1]), window.limit)
    following = cursors.following(request, form, window, [steps[-1].number]) if more else None
    data = [_step(one) for one in steps]
    return forms.Transcript(episode=row.code, goal=row.experiment.goal, data=data, next=following)


def _episodes(request: ApiRequest) -> QuerySet[Episode]:
    if not request.auth.user.is_staff:
        raise Http404
    return Episode.objects.select_related("experiment", "run").prefetch_related("reviews").defer(*_LONG)


def _one(request: ApiRequest, code: UUID) -> Episode:
    if (found := _episodes(request).filter(code=code).first()) is None:
        raise Http404
    return found


def _chosen(window: EpisodeWindow) -> dict[str, str]:
    asked = {"experiment__slug": window.experiment, "cast": window.cast, "status": window.status}
    return {name: value for name, value in asked.items() if value}


def _key(code: str) -> int:
    found: int | None = Episode.objects.filter(code=code).values_list("pk", flat=True).first()
    if found is None:
        raise CursorError(GONE)
    return found


def _told(row: Episode) -> forms.Episode:
    names = ("code", "cast", "replicate", "counts", "status", "reason", "seed", "created_at", "started_at", "ended_at")
    said = [
        (one.primary, forms.Verdict(classifier=one.classifier, sufficient=one.sufficient)) for one in row.reviews.all()
    ]
    return forms.Episode(
        **{name: getattr(row, name) for name in names},
        run=row.run.code,
        experiment=row.experiment.slug,
        steps=row.next_number - 1,
        max_steps=row.experiment.max_steps,
        verdict=next((verdict for primary, verdict in said if primary), None),
        panel=[verdict for primary, verdict in said if not primary],
    )


def _step(row: Transition) -> forms.Step:
    shown: dict[str, Any] = step_from_json(row.step).transcript()._asdict()
    checker = row.findings["verdict"] if row.findings else None
    return forms.Step(**shown, accepted=row.accepted, rejected_by=row.rejected_by, checker=checker)
