"""What an opening stores before it is published: items, raters and assignments that nobody sees yet.

Storing thousands of rows takes seconds, for which no rater of another study may wait. They are therefore stored in short
transactions and belong to a study row of their own, which `Study.objects` leaves out, until one short transaction gives
them to the draft. Every preparation has its own row: two people who open the same draft do not disturb each other, and
what an interrupted opening leaves behind is deleted with the next opening, the draft or, after an hour, by a worker.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from django.db import transaction
from django.utils import timezone

from ratings.models import Assignment, Item, ItemSource, Rater, RenderedItem, Study
from wetbench_site.database import delete_rows

_ABANDONED_AFTER = timedelta(hours=1)  # far longer than any opening takes
_DELETED_AT_ONCE = 2_000  # rows a transaction
Stored = TypeVar("Stored")


class PreparationGone(LookupError):  # noqa: N818  # a state, not a fault
    """The preparation is of no use any more: somebody else has opened, changed or deleted the study."""


@contextmanager
def begin_preparation(draft: Study) -> Iterator[Study]:
    """Create the row of a preparation. At the end of the block it is deleted with all that was stored for it, if it still exists.

    Raises PreparationGone if the study is no draft any more.
    """
    with transaction.atomic():
        if not Study.objects.select_for_update().filter(pk=draft.pk, status="draft").exists():
            raise PreparationGone
        preparation = Study.with_preparations.create(
            slug=f"preparing-{uuid.uuid4().hex}", name=draft.name, kind=draft.kind, question=draft.question,
            protocol=draft.protocol, seed=draft.seed, ratings_per_item=draft.ratings_per_item, preparation_of=draft,
        )  # fmt: skip
    try:
        yield preparation
    finally:
        delete_preparation(preparation)


def store_rows(preparation: Study, store: Callable[[], Stored]) -> Stored:
    """Call `store` in a transaction of its own. Raises PreparationGone instead if the preparation was deleted."""
    with transaction.atomic():
        _lock(preparation)
        return store()


def publish_rows(preparation: Study, draft: Study) -> None:
    """Give everything that was stored to the draft, in the caller's transaction. Raises PreparationGone."""
    _lock(preparation)
    for model in (Item, Rater):
        model._default_manager.filter(study=preparation).update(study=draft)
    delete_rows(Study.with_preparations.filter(pk=preparation.pk))


def delete_preparations(draft: Study) -> None:
    """Delete all preparations of this draft, among them those that interrupted openings have left behind."""
    for preparation in Study.with_preparations.filter(preparation_of=draft):
        delete_preparation(preparation)


def delete_abandoned() -> None:
    """Delete preparations whose process has ended; workers call this regularly."""
    # Their items would keep steps, twins and imported items of the pool from being deleted.
    abandoned = Study.with_preparations.filter(created_at__lt=timezone.now() - _ABANDONED_AFTER)
    for preparation in abandoned.exclude(preparation_of=None):
        delete_preparation(preparation)


def delete_preparation(preparation: Study) -> None:
    """Delete the preparation with all that was stored for it, in short transactions. Does nothing if it is gone."""
    # From here on nothing more is stored for it: an opening that is under way finds that its preparation is gone.
    Study.with_preparations.filter(pk=preparation.pk).update(closed_at=timezone.now())
    of_item = ((model, "item__study") for model in (RenderedItem, ItemSource))
    for model, owner in ((Assignment, "rater__study"), *of_item, (Item, "study"), (Rater, "study")):
        delete_rows(model._default_manager.filter(**{owner: preparation}), _DELETED_AT_ONCE)
    delete_rows(Study.with_preparations.filter(pk=preparation.pk))


def _lock(preparation: Study) -> None:
    """Lock the preparation, so that nobody deletes it while rows are stored for it."""
    current = Study.with_preparations.select_for_update().filter(pk=preparation.pk, closed_at=None)
    if not current.exists():
        raise PreparationGone
