"""Episodes of the laboratory and their transcripts, for tokens of staff."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from ninja import Query, Router
from pydantic import Field

from ratings.api import responses, schemas
from ratings.api.responses import PageQuery
from ratings.api.tokens import ApiRequest, read_operation
from simulation.lab.bench import step_from_json
from simulation.models import Episode, Transition

router = Router(tags=["laboratory"])
# large JSON columns that no response contains
_DEFERRED_FIELDS = ("initial", "pending", "memory", "experiment__data", "run__setup")


def create_filter_field(max_length: int, description: str) -> Any:
    """Return the field of a text filter. It rejects NUL characters, which PostgreSQL does not accept in text."""
    return Field("", max_length=max_length, pattern=r"^[^\x00]*$", description=description)


class EpisodeQuery(PageQuery):
    """Filters for episodes. An empty filter selects all; a value that no episode has gives an empty list."""

    experiment: str = create_filter_field(80, "Only episodes of this experiment, by its short name.")
    cast: str = create_filter_field(80, "Only episodes of this cast.")
    status: str = create_filter_field(20, "Only episodes with this status.")


@read_operation(router, "/episodes", "episodes", ["episodes:read"], schemas.Episodes, 400, 404)
def list_episodes(request: ApiRequest, window: Query[EpisodeQuery]) -> schemas.Episodes:
    """List episodes, newest first."""

    def load_rows(last: list[Any] | None, n: int) -> QuerySet[Episode]:
        filters = {"experiment__slug": window.experiment, "cast": window.cast, "status": window.status}
        matches = _select_episodes(request).order_by("-pk")
        matches = matches.filter(**{name: value for name, value in filters.items() if value})
        return (matches.filter(pk__lt=responses.find_key(Episode.objects.all(), last[0])) if last else matches)[:n]

    page = responses.select_page(request, "episodes", window, load_rows, lambda row: [str(row.code)])
    return schemas.Episodes(data=[_format_episode(row) for row in page.rows], next=page.next)


@read_operation(router, "/episodes/{uuid:code}", "episode", ["episodes:read"], schemas.Episode, 404)
def get_episode(request: ApiRequest, code: UUID) -> schemas.Episode:
    """Return one episode."""
    return _format_episode(_get_episode(request, code))


@read_operation(
    router, "/episodes/{uuid:code}/transcript", "transcript", ["transcripts:read"], schemas.Transcript, 400, 404
)  # fmt: skip
def get_transcript(request: ApiRequest, code: UUID, window: Query[PageQuery]) -> schemas.Transcript:
    """Return the actions and outcomes of an episode step by step, as a classifier sees them."""
    row = _get_episode(request, code)

    def load_steps(last: list[Any] | None, n: int) -> QuerySet[Transition]:
        return row.transitions.filter(number__gt=last[0] if last else 0).order_by("number")[:n]

    page = responses.select_page(request, f"transcript/{code}", window, load_steps, lambda step: [step.number])
    data = [_format_step(step) for step in page.rows]
    return schemas.Transcript(episode=row.code, goal=row.experiment.goal, data=data, next=page.next)


def _select_episodes(request: ApiRequest) -> QuerySet[Episode]:
    # 404, not 403: users who are not staff must not learn which episodes exist
    if not request.auth.user.is_staff:
        raise Http404
    return Episode.objects.select_related("experiment", "run").prefetch_related("reviews").defer(*_DEFERRED_FIELDS)


def _get_episode(request: ApiRequest, code: UUID) -> Episode:
    if (row := _select_episodes(request).filter(code=code).first()) is None:
        raise Http404
    return row


def _format_episode(row: Episode) -> schemas.Episode:
    names = (
        "code",
        "cast",
        "replicate",
        "mask",
        "counts",
        "status",
        "reason",
        "seed",
        "created_at",
        "started_at",
        "ended_at",
    )
    verdicts = [
        (review.primary, schemas.Verdict(classifier=review.classifier, sufficient=review.sufficient))
        for review in row.reviews.all()
    ]
    return schemas.Episode(
        **{name: getattr(row, name) for name in names},
        run=row.run.code,
        experiment=row.experiment.slug,
        steps=row.next_number - 1,
        max_steps=row.experiment.max_steps,
        verdict=next((verdict for primary, verdict in verdicts if primary), None),
        panel=[verdict for primary, verdict in verdicts if not primary],
    )


def _format_step(row: Transition) -> schemas.Step:
    content: dict[str, Any] = step_from_json(row.step).to_transcript()._asdict()
    checker = row.findings["verdict"] if row.findings else None
    return schemas.Step(**content, accepted=row.accepted, rejected_by=row.rejected_by, checker=checker)
