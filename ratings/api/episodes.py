"""Episodes of the laboratory and their transcripts, for tokens of staff."""

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
# large JSON columns that no response contains
_LONG = ("initial", "pending", "memory", "experiment__data", "run__setup")


def _chosen_by(longest: int, said: str) -> Any:
    """Return a text filter. NUL is not allowed, because PostgreSQL rejects it in text."""
    return Field("", max_length=longest, pattern=r"^[^\x00]*$", description=said)


class EpisodeWindow(Window):
    """Filters for episodes; empty ones select all. A value that does not exist gives an empty list."""

    experiment: str = _chosen_by(80, "Only episodes of this experiment, by its short name.")
    cast: str = _chosen_by(80, "Only episodes of this cast.")
    status: str = _chosen_by(20, "Only episodes with this status.")


@reads(router, "/episodes", "episodes", ["episodes:read"], forms.Episodes, 400, 404)
def episodes(request: ApiRequest, window: Query[EpisodeWindow]) -> forms.Episodes:
    """List episodes, newest first."""
    matches = _episodes(request).order_by("-pk").filter(**_chosen(window))
    if last_row := cursors.read("episodes", window.cursor):
        matches = matches.filter(pk__lt=_key(last_row[0]))
    rows, more = cursors.cut(list(matches[: window.limit + 1]), window.limit)
    next_url = cursors.following(request, "episodes", window, [str(rows[-1].code)]) if more else None
    return forms.Episodes(data=[_told(row) for row in rows], next=next_url)


@reads(router, "/episodes/{uuid:code}", "episode", ["episodes:read"], forms.Episode, 404)
def episode(request: ApiRequest, code: UUID) -> forms.Episode:
    """Return one episode."""
    return _told(_one(request, code))


@reads(
    router, "/episodes/{uuid:code}/transcript", "transcript", ["transcripts:read"], forms.Transcript, 400, 404
)  # fmt: skip
def transcript(request: ApiRequest, code: UUID, window: Query[Window]) -> forms.Transcript:
    """Return the actions and outcomes of an episode step by step, as a classifier sees them."""
    row, list_name = _one(request, code), f"transcript/{code}"
    last_step = cursors.read(list_name, window.cursor)
    transitions = row.transitions.filter(number__gt=last_step[0] if last_step else 0).order_by("number")
    steps, more = cursors.cut(list(transitions[: window.limit + 1]), window.limit)
    next_url = cursors.following(request, list_name, window, [steps[-1].number]) if more else None
    data = [_step(step) for step in steps]
    return forms.Transcript(episode=row.code, goal=row.experiment.goal, data=data, next=next_url)


def _episodes(request: ApiRequest) -> QuerySet[Episode]:
    # 404, not 403: others must not learn which episodes exist
    if not request.auth.user.is_staff:
        raise Http404
    return Episode.objects.select_related("experiment", "run").prefetch_related("reviews").defer(*_LONG)


def _one(request: ApiRequest, code: UUID) -> Episode:
    if (row := _episodes(request).filter(code=code).first()) is None:
        raise Http404
    return row


def _chosen(window: EpisodeWindow) -> dict[str, str]:
    filters = {"experiment__slug": window.experiment, "cast": window.cast, "status": window.status}
    return {name: value for name, value in filters.items() if value}


def _key(code: str) -> int:
    key: int | None = Episode.objects.filter(code=code).values_list("pk", flat=True).first()
    if key is None:
        raise CursorError(GONE)
    return key


def _told(row: Episode) -> forms.Episode:
    names = ("code", "cast", "replicate", "counts", "status", "reason", "seed", "created_at", "started_at", "ended_at")
    verdicts = [
        (review.primary, forms.Verdict(classifier=review.classifier, sufficient=review.sufficient))
        for review in row.reviews.all()
    ]
    return forms.Episode(
        **{name: getattr(row, name) for name in names},
        run=row.run.code,
        experiment=row.experiment.slug,
        steps=row.next_number - 1,
        max_steps=row.experiment.max_steps,
        verdict=next((verdict for primary, verdict in verdicts if primary), None),
        panel=[verdict for primary, verdict in verdicts if not primary],
    )


def _step(row: Transition) -> forms.Step:
    content: dict[str, Any] = step_from_json(row.step).transcript()._asdict()
    checker = row.findings["verdict"] if row.findings else None
    return forms.Step(**content, accepted=row.accepted, rejected_by=row.rejected_by, checker=checker)
