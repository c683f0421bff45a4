"""Slots of a study's items, and the lock that everybody holds who deals them out or answers.

Two guards keep an item from being rated more often than wanted: the study's row is locked while one request chooses, and the
database refuses a second live assignment with the same slot.
"""

from django.db import connection
from django.db.models import Q

from ratings.models import Assignment, Study
from ratings.models.answers import FIRST

LIVE = Q(occasion=FIRST, slot__isnull=False, released_at__isnull=True)


def lock(study: int) -> Study:
    """The study's row, which everybody who deals out or answers holds while they do."""
    return Study.objects.select_for_update().get(pk=study)


def share(study: Study) -> None:
    """Holds the study's row for who answers in a planned design, and reads again what may have changed: any number of them
    at once, and while they do nobody locks it. SQLite needs no clause: it has one writer at a time."""
    clause = " FOR SHARE" if connection.features.has_select_for_update else ""
    table = connection.ops.quote_name(Study._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT status, guide_version FROM {table} WHERE id = %s{clause}", [study.pk])
        study.status, study.guide_version = cursor.fetchone()


def free_slot(item: int, wanted: int) -> int | None:
    """The lowest of an item's wanted ratings that nobody has given or is giving."""
    taken = set(Assignment.objects.filter(LIVE, item=item).values_list("slot", flat=True))
    return next((slot for slot in range(1, wanted + 1) if slot not in taken), None)
