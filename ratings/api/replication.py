"""Replication tasks and code episodes, for tokens of staff. Reference values and secret data sets are never included."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404
from ninja import Query, Router

from ratings.api import responses, schemas
from ratings.api.episodes import create_filter_field
from ratings.api.responses import PageQuery
from ratings.api.tokens import ApiRequest, read_operation
from simulation.models import CodeEpisode, ReplicationTask

router = Router(tags=["laboratory"])
_PARTS = ("data__summary", "data__functions", "data__test_cases")  # of a task, which with its code is large
_DEFERRED_FIELDS = (
    "pending", "memory", "reported", "mask__task__data", "mask__validation", "run__setup", "grading__grade",
    "grading__stages",
)  # fmt: skip


class CodeEpisodeQuery(PageQuery):
    """Filters for code episodes. An empty filter selects all; a value that no code episode has gives an empty list."""

    task: str = create_filter_field(80, "Only code episodes of this task, by its short name.")
    cast: str = create_filter_field(80, "Only code episodes of this cast.")
    status: str = create_filter_field(20, "Only code episodes with this status.")
    outcome: str = create_filter_field(20, "Only code episodes whose grading has this outcome.")


@read_operation(router, "/replication/tasks", "tasks", ["episodes:read"], schemas.ReplicationTasks, 400, 404)
def list_tasks(request: ApiRequest, window: Query[PageQuery]) -> schemas.ReplicationTasks:
    """List replication tasks by short name."""
    _check_staff(request)

    def load_rows(last: list[Any] | None, n: int) -> QuerySet[ReplicationTask]:
        rows = ReplicationTask.objects.defer("data").prefetch_related("experiments").order_by("slug")
        return (rows.filter(slug__gt=last[0]) if last else rows)[:n]

    page = responses.select_page(request, "replication/tasks", window, load_rows, lambda row: [row.slug])
    columns = ReplicationTask.objects.filter(pk__in=[row.pk for row in page.rows]).values_list("pk", *_PARTS)
    parts = {pk: rest for pk, *rest in columns}
    return schemas.ReplicationTasks(data=[_format_task(row, *parts[row.pk]) for row in page.rows], next=page.next)


@read_operation(router, "/replication/episodes", "code_episodes", ["episodes:read"], schemas.CodeEpisodes, 400, 404)
def list_code_episodes(request: ApiRequest, window: Query[CodeEpisodeQuery]) -> schemas.CodeEpisodes:
    """List code episodes, newest first."""

    def load_rows(last: list[Any] | None, n: int) -> QuerySet[CodeEpisode]:
        names = {"mask__task__slug": window.task, "cast": window.cast, "status": window.status}
        filters = {**names, "grading__outcome": window.outcome}
        matches = _select_code_episodes(request).order_by("-pk")
        matches = matches.filter(**{name: value for name, value in filters.items() if value})
        return (matches.filter(pk__lt=responses.find_key(CodeEpisode.objects.all(), last[0])) if last else matches)[:n]

    page = responses.select_page(request, "replication/episodes", window, load_rows, lambda row: [str(row.code)])
    return schemas.CodeEpisodes(data=[_format_code_episode(row) for row in page.rows], next=page.next)


@read_operation(
    router, "/replication/episodes/{uuid:code}", "code_episode", ["episodes:read"], schemas.CodeEpisode, 404
)  # fmt: skip
def get_code_episode(request: ApiRequest, code: UUID) -> schemas.CodeEpisode:
    """Return one code episode."""
    if (row := _select_code_episodes(request).filter(code=code).first()) is None:
        raise Http404
    return _format_code_episode(row)


def _check_staff(request: ApiRequest) -> None:
    # 404, not 403: users who are not staff must not learn what exists
    if not request.auth.user.is_staff:
        raise Http404


def _select_code_episodes(request: ApiRequest) -> QuerySet[CodeEpisode]:
    _check_staff(request)
    return CodeEpisode.objects.select_related("mask__task", "run", "grading").defer(*_DEFERRED_FIELDS)


def _format_task(
    row: ReplicationTask, summary: str, functions: list[dict[str, Any]], cases: list[dict[str, Any]]
) -> schemas.ReplicationTask:
    return schemas.ReplicationTask(
        task=row.slug,
        name=row.name,
        summary=summary,
        sha256=row.sha256,
        experiments=sorted(experiment.slug for experiment in row.experiments.all()),
        packages=row.packages,
        functions=[{name: entry[name] for name in ("id", "path", "name")} for entry in functions],
        test_cases=[
            {"id": case["id"], "title": case["title"], "metrics": [metric["name"] for metric in case["metrics"]]}
            for case in cases
        ],
        invalid_reason=row.invalid_reason,
    )


def _format_code_episode(row: CodeEpisode) -> schemas.CodeEpisode:
    names = (
        "code", "cast", "replicate", "counts", "conditions", "status", "reason", "seed", "sandbox_seconds", "created_at",
        "started_at", "ended_at",
    )  # fmt: skip
    grading = getattr(row, "grading", None)
    grade: dict[str, Any] = {
        name: getattr(grading, name) if grading else None for name in ("outcome", "paper_pass", "measured", "robust")
    }
    return schemas.CodeEpisode(
        **{name: getattr(row, name) for name in names},
        **grade,
        run=row.run.code,
        task=row.mask.task.slug,
        mask=row.mask.key,
        functions=row.mask.functions,
        by_rules=not row.run.setup_sha256,
        steps=row.next_number - 1,
    )
