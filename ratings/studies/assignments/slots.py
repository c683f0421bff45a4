"""Slots of a study's items, and the locks that every request takes before it assigns or answers items.

Two guards keep an item from being rated more often than requested: the study's row is locked while a request chooses
a slot, and the database refuses a second live assignment with the same slot.
"""

from django.db import connection
from django.db.models import Q

from ratings.models import Assignment, Study
from ratings.models.answers import FIRST

LIVE = Q(occasion=FIRST, slot__isnull=False, released_at__isnull=True)


def lock_study(study: int) -> Study:
    """Lock the study's row, so that nobody else assigns or answers items at the same time, and return the row."""
    return Study.objects.select_for_update().get(pk=study)


def lock_study_shared(study: Study) -> None:
    """Lock the study's row for an answer in a planned design, and update the fields that may have changed."""
    # Shared: any number of answers hold it at once, and while they do nobody gets the exclusive lock. Django has no
    # FOR SHARE, hence the SQL. SQLite needs no clause: it has one writer at a time.
    clause = " FOR SHARE" if connection.features.has_select_for_update else ""
    table = connection.ops.quote_name(Study._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT status, guide_version FROM {table} WHERE id = %s{clause}", [study.pk])
        study.status, study.guide_version = cursor.fetchone()


def find_free_slot(item: int, ratings_per_item: int) -> int | None:
    """Return the lowest slot of the item that nobody has rated or is rating; None if all are taken."""
    used_slots = set(Assignment.objects.filter(LIVE, item=item).values_list("slot", flat=True))
    return next((slot for slot in range(1, ratings_per_item + 1) if slot not in used_slots), None)
