"""Store a first answer and open the next item, with as few statements as the database allows.

Nearly all submissions are first answers to an open item of a planned design. The conditions of such a submission are part
of the statement that locks its rows. If one of them does not hold, nothing is stored, and `submit` handles the submission
step by step, because a rater then needs to know the reason.
"""

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import DateTimeField, JSONField, Model, UUIDField

from ratings.models import Assignment, Rating, RatingEvent
from ratings.models.answers import FIRST
from ratings.studies.rendered_items import FINAL_STAGE, TWO_STAGE_LAYOUT, compute_version

# Whether the answer may be stored. An older submission id may belong to an answer that has been corrected since, so it is
# looked up in the log. With `coalesce`, the condition is not that of the partial index of waiting assignments: before a new
# study is analysed, PostgreSQL would read all of that index.
_MAY_STORE = """
    assignment.id = %s AND rater.guide_seen = %s
    AND study.status = 'open' AND rater.withdrawn_at IS NULL AND rater.finished_at IS NULL
    AND coalesce(assignment.answered_at, assignment.released_at, assignment.reserved_until) IS NULL
    AND assignment.opened_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM ratings_ratingevent WHERE submission_id = %s)"""
# `FOR ...` below locks the study first, as everywhere.
_FIND_PLACE = f"""
    SELECT rater.guide_seen >= study.guide_version AS has_seen_guide
    FROM ratings_study study
    JOIN ratings_rater rater ON rater.study_id = study.id
    JOIN ratings_assignment assignment ON assignment.rater_id = rater.id
    WHERE {_MAY_STORE}"""
_TAKE_PLACE = f"""
    UPDATE ratings_assignment AS assignment SET answered_at = %s
    FROM ratings_rater rater JOIN ratings_study study ON rater.study_id = study.id
    WHERE assignment.rater_id = rater.id AND {_MAY_STORE}
    RETURNING
        (SELECT r.guide_seen >= s.guide_version FROM ratings_rater r JOIN ratings_study s ON r.study_id = s.id WHERE r.id = rater_id),
        EXISTS (SELECT 1 FROM ratings_unsavedanswer WHERE assignment_id = ratings_assignment.id)"""
_FIND_NEXT = """
    SELECT id FROM ratings_assignment
    WHERE rater_id = %s AND id <> %s AND answered_at IS NULL AND released_at IS NULL
    ORDER BY position LIMIT 1"""


class NextItem(NamedTuple):
    """The next assignment, which was opened: its code, where rows can be marked, and the stored HTML of its item.

    `html` is None if it was not asked for, is not stored, or is not the page to show: in the confirm layout, and if the rater
    has selected something that is not saved.
    """

    code: UUID
    marks: str
    html: str | None


class StoredAnswer(NamedTuple):
    """What was stored: the key of the rating, the rater's counts, and the next assignment, if it was opened."""

    rating_id: int
    answered_items: int
    waiting_items: int
    next_item: NextItem | None


class NextAction(Enum):
    """What to do with the rater's next assignment."""

    NOTHING = 0
    OPEN = 1
    SHOW = 2  # open it and return the HTML of its item


def store_first_answer(
    assignment: Assignment, rating: Rating, event: RatingEvent, now: datetime, next_action: NextAction
) -> StoredAnswer | None:
    """Store this unsaved rating and its event, and open the rater's next assignment, all or nothing.

    Return None, with nothing stored, if the assignment is not open for a first answer, or the submission id is in use.
    The next assignment is not opened if the rater has to read new instructions first.
    """
    # The proxy `django.db.connection` would look up the thread's connection at every access.
    connection = connections[DEFAULT_DB_ALIAS]
    rating_values, event_values = _list_values(rating, connection), _list_values(event, connection)
    submission_id = event_values[_list_columns(RatingEvent).index("submission_id")]
    answer = _AnswerValues(
        assignment.pk, assignment.rater_id, int(assignment.occasion == FIRST), [assignment.pk, assignment.rater.guide_seen, submission_id], rating_values,
        event_values, connection.ops.adapt_datetimefield_value(now), next_action,
    )  # fmt: skip
    return (_store_on_postgres if connection.vendor == "postgresql" else _store_on_sqlite)(answer, connection)


class _AnswerValues(NamedTuple):
    """The parameters of the statements."""

    assignment: int
    rater: int
    counted: int  # what it adds to the rater's counted_items: 1, or 0 for a repeated item
    place: list[Any]  # of _FIND_PLACE
    rating: list[Any]
    event: list[Any]
    now: Any
    next_action: NextAction


def _store_on_postgres(answer: _AnswerValues, connection: Any) -> StoredAnswer | None:
    key, rater, counted, place, rating, event, now, next_action = answer
    parameters = [*place, *rating, *event, now, key, counted, rater]
    if next_action is not NextAction.NOTHING:
        parameters += [now, rater, key]
    with connection.cursor() as cursor:
        cursor.execute(_build_postgres_statement(next_action), [*parameters, key])
        row = cursor.fetchone()
    if row is None:
        return None
    rating_id, answered_items, waiting_items, code, marks, html = row
    return StoredAnswer(rating_id, answered_items, waiting_items, NextItem(code, marks, html) if code else None)


@cache
def _build_postgres_statement(next_action: NextAction) -> str:
    """Return one statement. Each part works on the rows of the parts before it, so that without a place nothing happens."""
    columns, event_columns = _list_columns(Rating), _list_columns(RatingEvent)
    if next_action is NextAction.NOTHING:
        opened = "SELECT NULL::uuid AS code, NULL AS marks, NULL AS html"
    else:
        opened = f"""
            UPDATE ratings_assignment SET opened_at = coalesce(opened_at, %s) FROM place, stored
            WHERE ratings_assignment.id = ({_FIND_NEXT}) AND has_seen_guide AND released_at IS NULL
            RETURNING {_format_next_columns(next_action)}"""
    # NO KEY: inserting a rating needs only a key share lock on the assignment, and must not wait for this one.
    return f"""
        WITH place AS MATERIALIZED (
            {_FIND_PLACE} FOR SHARE OF study FOR NO KEY UPDATE OF assignment, rater
        ), stored AS (
            INSERT INTO ratings_rating ({", ".join(columns)})
            SELECT {", ".join(["%s"] * len(columns))} FROM place RETURNING id
        ), logged AS (
            INSERT INTO ratings_ratingevent ({", ".join(event_columns)})
            SELECT {", ".join(["%s"] * len(event_columns))} FROM stored
        ), answered AS (
            UPDATE ratings_assignment SET answered_at = %s FROM stored WHERE ratings_assignment.id = %s
        ), counted AS (
            UPDATE ratings_rater SET answered_items = answered_items + 1, waiting_items = waiting_items - 1,
                counted_items = counted_items + %s
            FROM stored WHERE ratings_rater.id = %s RETURNING answered_items, waiting_items
        ), opened AS ({opened}
        ), discarded AS (
            DELETE FROM ratings_unsavedanswer USING stored WHERE assignment_id = %s
        )
        SELECT stored.id, answered_items, waiting_items, opened.code, opened.marks, opened.html
        FROM stored CROSS JOIN counted LEFT JOIN opened ON true"""


def _format_next_columns(next_action: NextAction) -> str:
    """Return the columns of NextItem, for the statement that opens the assignment."""
    # The HTML that `rendered_items.select_html` selects, if `rating_page` would show it in an empty form.
    stored = f"""
        SELECT html FROM ratings_rendereditem rendered
        WHERE rendered.item_id = ratings_assignment.item_id AND rendered.layout = ratings_assignment.layout
            AND rendered.with_context = ratings_assignment.with_context AND rendered.marks = ratings_assignment.marks
            AND rendered.stage = '{FINAL_STAGE}' AND rendered.version = '{compute_version()}'
            AND ratings_assignment.layout <> '{TWO_STAGE_LAYOUT}'
            AND NOT EXISTS (SELECT 1 FROM ratings_unsavedanswer WHERE assignment_id = ratings_assignment.id)"""
    return f"code, marks, {f'({stored})' if next_action is NextAction.SHOW else 'NULL'} AS html"


@transaction.atomic
def _store_on_sqlite(answer: _AnswerValues, connection: Any) -> StoredAnswer | None:
    """Do the same with several statements: SQLite has one writer at a time and no WITH parts that write."""
    key, rater, counted, place, rating, event, now, next_action = answer
    next_item: NextItem | None = None
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_PLACE, [now, *place])
        if (found := cursor.fetchone()) is None:
            return None
        has_seen_guide, has_unsaved = found
        cursor.execute(_build_insert(Rating), rating)
        rating_id = cursor.lastrowid
        cursor.execute(_build_insert(RatingEvent), event)
        if has_unsaved:
            cursor.execute("DELETE FROM ratings_unsavedanswer WHERE assignment_id = %s", [key])
        cursor.execute(
            "UPDATE ratings_rater SET answered_items = answered_items + 1, waiting_items = waiting_items - 1, "
            "counted_items = counted_items + %s WHERE id = %s RETURNING answered_items, waiting_items",
            [counted, rater],
        )
        answered_items, waiting_items = cursor.fetchone()
        if has_seen_guide and next_action is not NextAction.NOTHING:
            cursor.execute(_build_sqlite_opening(next_action), [now, rater, key])
            if opened := cursor.fetchone():
                code, marks, html = opened
                next_item = NextItem(UUID(code), marks, html)  # SQLite stores the code as text
    return StoredAnswer(rating_id, answered_items, waiting_items, next_item)


@cache
def _build_sqlite_opening(next_action: NextAction) -> str:
    return f"""
        UPDATE ratings_assignment SET opened_at = coalesce(opened_at, %s) WHERE id = ({_FIND_NEXT})
        RETURNING {_format_next_columns(next_action)}"""


@cache
def _build_insert(model: type[Model]) -> str:
    columns = _list_columns(model)
    return f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"


@cache
def _list_columns(model: type[Model]) -> list[str]:
    """Return the names of all columns of the model except its key."""
    return [field.column for field in model._meta.concrete_fields if not field.primary_key]


def _list_values(row: Model, connection: Any) -> list[Any]:
    """Return the values of these columns as this database stores them."""
    values = row.__dict__
    return [
        values[name] if adapt is None or values[name] is None else adapt(values[name], connection)
        for name, adapt in _list_adapters(type(row))
    ]


@cache
def _list_adapters(model: type[Model]) -> list[tuple[str, Callable[[Any, Any], Any] | None]]:
    """Return the attribute of each column, with the function that adapts its values if databases store them in a form of their own."""
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    # What Django's fields do besides takes several times as long.
    adapters: dict[type, Callable[[Any, Any], Any]] = {
        DateTimeField: lambda value, connection: connection.ops.adapt_datetimefield_value(value),
        JSONField: lambda value, connection: connection.ops.adapt_json_value(value, None),
        UUIDField: lambda value, connection: value if connection.features.has_native_uuid_field else value.hex,
    }
    return [(field.attname, adapters.get(type(field))) for field in fields]
