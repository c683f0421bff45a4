"""Tests of choosing a rater's next item, in planned studies and in pool studies with concurrent raters."""

import random
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.db.models import Count
from django.utils import timezone

from ratings.models import Assignment, Rater, Rating, Study
from ratings.rating import next_item, pool_claims, submit
from ratings.studies import lifecycle, reassign, running_raters
from tests.support import run_factory, study_factory
from tests.support.steps import run_concurrently

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SLOT = next(c for c in Assignment._meta.constraints if c.name == "assignment_one_per_slot")


def minutes_from_now(minutes: int) -> Any:
    return timezone.now() + timedelta(minutes=minutes)


def submit_answer(assignment: Assignment, **said: Any) -> submit.SubmissionResult:
    next_item.mark_opened(assignment)
    return submit.submit_rating(assignment, True, 4, uuid.uuid4(), **said)


def count_ratings_per_item(study: Study) -> Counter[int]:
    """Return how many counted ratings each item has."""
    counting = Rating.objects.filter(
        assignment__item__study=study, assignment__occasion=1, assignment__surplus=False,
        assignment__released_at__isnull=True, assignment__rater__dropped=False,
    )  # fmt: skip
    return Counter(counting.values_list("assignment__item", flat=True))


@pytest.fixture
def pool_study(db: None) -> Study:
    run_factory.create_pool(30, experiments=("caffeine",))
    sources = [{"cast": "offline", "perturbation": "none", "count": 10}]
    return study_factory.create_open_study(
        design="pool", sources=sources, ratings_per_item=3, raters=6, lease_minutes=30
    )


@pytest.fixture
def raters(pool_study: Study) -> list[Rater]:
    return study_factory.fill_all_rater_places(pool_study)


def test_next_item_follows_the_planned_order_and_previous_item_is_the_last_answered(db: None) -> None:
    run_factory.create_pool()
    rater = study_factory.fill_rater_place(study_factory.create_open_study())
    order = list(rater.assignments.order_by("position"))
    assert next_item.find_next_assignment(rater) == order[0] and next_item.find_previous_answer(rater) is None
    assert next_item.count_progress(rater) == (0, len(order))
    submit_answer(order[0])
    assert next_item.find_next_assignment(rater) == order[1]
    assert next_item.find_previous_answer(rater) == (order[0].code, Rating.objects.get().submitted_at)
    study_factory.rate_everything(rater)
    assert next_item.find_next_assignment(rater) is None and next_item.find_return_time(rater) is None
    assert next_item.count_progress(rater) == (len(order), len(order))


def test_item_is_not_opened_after_it_was_released_to_another_rater(db: None) -> None:
    run_factory.create_pool()
    rater = study_factory.fill_rater_place(study_factory.create_open_study())
    assignment = next_item.find_next_assignment(rater)
    assert next_item.mark_opened(assignment) and next_item.mark_opened(assignment)
    Assignment.objects.filter(pk=assignment.pk).update(slot=None, released_at=timezone.now())
    assert not next_item.mark_opened(assignment)


def test_pool_claim_returns_the_same_item_while_its_reservation_is_valid(raters) -> None:
    first = next_item.find_next_assignment(raters[0])
    assert next_item.find_next_assignment(raters[0]) == first
    assert (first.position, first.slot, first.opened_at) == (1, 1, None)
    assert timedelta(minutes=29) < first.reserved_until - timezone.now() <= timedelta(minutes=30)


def test_pool_claim_prefers_the_items_with_fewest_claims(pool_study, raters) -> None:
    for rater in raters[:2] * 5:
        submit_answer(next_item.find_next_assignment(rater))
    # Two raters rate five items each. The least claimed items come first, so all ten items now have one rating.
    assert count_ratings_per_item(pool_study) == dict.fromkeys(pool_study.items.values_list("pk", flat=True), 1)


def test_expired_pool_reservation_passes_to_another_rater_and_a_late_answer_is_surplus(pool_study, raters) -> None:
    study, away = pool_study, raters[0]
    study.items.exclude(pk=next_item.find_next_assignment(away).item_id).first()
    kept = next_item.find_next_assignment(away)
    for rater in raters[1:]:
        while assignment := next_item.find_next_assignment(rater, minutes_from_now(31)):
            submit_answer(assignment)
    assert count_ratings_per_item(study)[kept.item_id] == 3  # the other raters have taken all slots of the item
    kept.refresh_from_db()
    assert kept.slot is None and kept.released_at
    result = submit.submit_rating(kept, False, 2, uuid.uuid4())
    kept.refresh_from_db()
    assert result.is_new and kept.surplus
    assert set(count_ratings_per_item(study).values()) == {3}


def test_pool_reservation_is_renewed_for_a_late_rater_if_a_slot_is_free(pool_study, raters) -> None:
    kept = next_item.find_next_assignment(raters[0])
    assert next_item.find_next_assignment(raters[1], minutes_from_now(31))  # a claim releases expired reservations
    kept.refresh_from_db()
    assert kept.slot is None
    again = next_item.find_next_assignment(raters[0], minutes_from_now(32))
    assert again == kept and again.slot and again.released_at is None


def test_pool_reservation_is_extended_after_it_expires_if_no_other_rater_claims(raters) -> None:
    kept = next_item.find_next_assignment(raters[0])
    assert next_item.find_next_assignment(raters[0], minutes_from_now(45)) == kept
    kept.refresh_from_db()
    assert kept.reserved_until > minutes_from_now(70)
    next_item.extend_reservation(kept, minutes_from_now(60))
    kept.refresh_from_db()
    assert kept.reserved_until > minutes_from_now(85)


def test_pool_waiting_time_is_the_earliest_expiry_when_all_items_are_reserved(db: None) -> None:
    run_factory.create_pool()
    sources = [{"cast": "offline", "count": 2}]
    study = study_factory.create_open_study(design="pool", sources=sources, ratings_per_item=1, raters=3)
    one, two, three = study_factory.fill_all_rater_places(study)
    held = next_item.find_next_assignment(one)
    next_item.find_next_assignment(two, minutes_from_now(5))
    assert next_item.find_next_assignment(three) is None
    assert next_item.find_return_time(three) == held.reserved_until
    assert next_item.find_next_assignment(three, held.reserved_until).item_id == held.item_id
    submit_answer(next_item.find_next_assignment(three, held.reserved_until))
    submit_answer(next_item.find_next_assignment(two, minutes_from_now(5)))
    assert next_item.find_next_assignment(one) is None and next_item.find_return_time(one) is None


def test_pool_claims_respect_the_pair_rule_and_the_item_limit_of_a_rater(db: None) -> None:
    run_factory.create_pool(4)
    sources = [{"cast": "offline", "perturbation": p, "count": 4} for p in ("none", "obvious", "subtle")]
    study = study_factory.create_open_study(design="pool", sources=sources, ratings_per_item=1, items_per_rater=3)
    rater = study_factory.fill_rater_place(study)
    assert next_item.count_progress(rater) == (0, 3)
    assert study_factory.rate_everything(rater) == 3
    assert next_item.count_progress(rater) == (3, 3) and next_item.find_return_time(rater) is None
    assert rater.assignments.values("pair").distinct().count() == 3


def test_paused_study_allows_no_new_claim_but_keeps_existing_reservations(pool_study, raters) -> None:
    held = next_item.find_next_assignment(raters[0])
    lifecycle.pause_study(pool_study)
    assert next_item.find_next_assignment(raters[0], minutes_from_now(40)) == held
    assert next_item.find_next_assignment(raters[1]) is None


def test_pool_repeats_show_a_share_of_the_items_again_after_the_minimum_distance(db: None) -> None:
    run_factory.create_pool(30)
    sources = [{"cast": "offline", "count": 20}]
    study = study_factory.create_open_study(design="pool", sources=sources, ratings_per_item=1, raters=1)
    study.protocol |= {"repeats": 0.25, "repeat_distance": 4}
    study.save()
    rater = study_factory.fill_rater_place(study)
    assert study_factory.rate_everything(rater) == 25  # 20 items, and a quarter of them again as repeats
    first = dict(rater.assignments.filter(occasion=1).values_list("item", "position"))
    again = dict(rater.assignments.filter(occasion=2).values_list("item", "position"))
    assert len(again) == 5 and all(assignment - first[item] > 4 for item, assignment in again.items())


def test_pool_display_arms_by_item_are_balanced_for_each_rater(db: None) -> None:
    run_factory.create_pool(30)
    display = {"layouts": ["plain", "aligned"], "context": [False], "marks": ["off"], "by": "item"}
    sources = [{"cast": "offline", "count": 10}]
    study = study_factory.create_open_study(design="pool", sources=sources, raters=2, display=display)
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
        assert Counter(rater.assignments.values_list("layout", flat=True)) == {"plain": 5, "aligned": 5}


@pytest.mark.django_db(transaction=True)
def test_pool_with_twenty_concurrent_raters_gives_each_item_exactly_the_requested_ratings() -> None:
    """Some raters abandon an item, and some reservations expire during other claims."""
    run_factory.create_pool(20)
    sources = [{"cast": "offline", "perturbation": p, "count": 6} for p in ("none", "obvious", "subtle")]
    study = study_factory.create_open_study(design="pool", sources=sources, ratings_per_item=3, raters=20)
    raters = study_factory.fill_all_rater_places(study)

    def work() -> int:
        rater = raters.pop()
        rng, done = random.Random(rater.number), 0
        while assignment := next_item.find_next_assignment(rater, minutes_from_now(31 if rng.random() < 0.2 else 0)):
            if rng.random() < 0.2 and next_item.find_next_assignment(rater) != assignment:
                continue
            submit_answer(assignment)
            done += 1
        return done

    results = run_concurrently(work, threads=20)
    assert [result for result in results if isinstance(result, Exception)] == []
    for rater in study.raters.all():  # rate the abandoned items
        study_factory.rate_everything(rater)
    assert count_ratings_per_item(study) == dict.fromkeys(study.items.values_list("pk", flat=True), 3)
    assert not Assignment.objects.filter(released_at__isnull=True, rating__isnull=True).exists()


@pytest.mark.django_db(transaction=True)
def test_pool_rater_with_twelve_concurrent_windows_reserves_one_item() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(design="pool")
    rater = study_factory.fill_rater_place(study)
    results = run_concurrently(lambda: next_item.find_next_assignment(rater), threads=12)
    assert len({result.pk for result in results}) == 1 and rater.assignments.count() == 1


@pytest.mark.django_db(transaction=True)
def test_planned_study_with_twenty_concurrent_raters_gives_each_item_exactly_the_requested_ratings() -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(raters=20, ratings_per_item=4)
    raters = study_factory.fill_all_rater_places(study)
    results = run_concurrently(lambda: study_factory.rate_everything(raters.pop()), threads=20)
    assert sum(results) == 40 and count_ratings_per_item(study) == dict.fromkeys(
        study.items.values_list("pk", flat=True), 4
    )


def claim_unguarded(raters: list[Rater], together: threading.Barrier) -> int:
    """Claim like `claiming`, without the lock on the study: all threads choose an item before the first one writes."""
    rater = raters.pop()
    best = min(pool_claims._list_open_items(rater), key=lambda place: (place.taken_slots, place.item))
    slot = reassign.find_free_slot(best.item, rater.study.ratings_per_item)
    together.wait(timeout=30)
    assignment = Assignment(
        rater=rater, item_id=best.item, pair=best.pair, position=1, slot=slot, reserved_until=minutes_from_now(30)
    )
    assignment.save()
    return best.item


@contextmanager
def drop_slot_constraint() -> Iterator[None]:
    """Drop the index that rejects a taken slot, and create it again afterwards."""
    with connection.schema_editor() as editor:
        editor.execute("DROP INDEX assignment_one_per_slot")
    try:
        yield
    finally:
        Assignment.objects.all().delete()
        with connection.schema_editor() as editor:
            editor.execute(SLOT.create_sql(Assignment, editor))


def open_one_item_study() -> Study:
    run_factory.create_pool()
    sources = [{"cast": "offline", "count": 1}]
    return study_factory.create_open_study(design="pool", sources=sources, ratings_per_item=2, raters=8)


@pytest.mark.django_db(transaction=True)
def test_pool_slot_constraint_rejects_a_taken_slot_even_without_the_study_lock() -> None:
    study = open_one_item_study()
    raters, together = study_factory.fill_all_rater_places(study), threading.Barrier(8)
    results = run_concurrently(lambda: claim_unguarded(raters, together), 8)
    assert sum(isinstance(result, IntegrityError) for result in results) == 7
    assert Assignment.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_control_pool_item_is_claimed_too_often_without_lock_and_constraint() -> None:
    """Control: without the guards the claims exceed two, so the race tests above can fail."""
    study = open_one_item_study()
    raters, together = study_factory.fill_all_rater_places(study), threading.Barrier(8)
    with drop_slot_constraint():
        run_concurrently(lambda: claim_unguarded(raters, together), 8)
        live = study.items.annotate(n=Count("assignments")).get().n
        assert live == 8 > study.ratings_per_item


@pytest.mark.django_db(transaction=True)
def test_pool_lock_and_constraint_work_again_after_the_control() -> None:
    study = open_one_item_study()
    raters = study_factory.fill_all_rater_places(study)
    results = run_concurrently(lambda: next_item.find_next_assignment(raters.pop()), 8)
    assert sum(result is not None for result in results) == 2 and results.count(None) == 6
    assignments = list(Assignment.objects.all())
    with pytest.raises(IntegrityError):
        Assignment.objects.filter(pk=assignments[0].pk).update(slot=assignments[1].slot)


def test_withdrawn_or_finished_rater_gets_no_next_item(raters) -> None:
    running_raters.withdraw_rater(raters[0])
    Rater.objects.filter(pk=raters[1].pk).update(finished_at=timezone.now())
    for rater in raters[:2]:
        rater.refresh_from_db()
        assert next_item.find_next_assignment(rater) is None and next_item.count_progress(rater) == (0, 0)


def test_pool_claim_needs_the_same_number_of_queries_for_ten_and_twenty_items(
    db: None, django_assert_max_num_queries
) -> None:
    run_factory.create_pool(40)
    counts = []
    for slug, items in (("ten", 10), ("twenty", 20)):
        sources = [{"cast": "offline", "count": items}]
        study = study_factory.create_open_study(slug=slug, design="pool", sources=sources)
        rater = study_factory.fill_rater_place(study)
        with django_assert_max_num_queries(20) as seen:
            next_item.find_next_assignment(rater)
        counts.append(len(seen.captured_queries))
    assert counts[0] == counts[1]
