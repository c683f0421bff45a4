"""Raters who join late or leave, and items added late: an item that was shown remains with its rater."""

import random
import threading
import time
import uuid
from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.models import Assignment, ItemSource, Rater, Study
from ratings.protocol import PlanError
from ratings.raters import invitations
from ratings.rating import next_item, submit
from ratings.studies import StudyError, lifecycle, pool, reassign, running_raters
from ratings.studies.progress import evaluate_stop_rule
from tests.support import run_factory, study_factory, study_log_texts
from tests.support.steps import run_concurrently

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def plain(count: int, **more: Any) -> dict[str, Any]:
    """Settings of a study with this many items, no two of which are versions of one thing."""
    return {"sources": [{"cast": "offline", "perturbation": "none", "count": count}], **more}


def live(study: Study) -> dict[int, list[int]]:
    """Return the slots of each item that some rater has rated or is to rate."""
    rows = Assignment.objects.filter(
        item__study=study, occasion=1, released_at__isnull=True, slot__isnull=False, rater__dropped=False
    )
    slots: dict[int, list[int]] = {item: [] for item in study.items.values_list("pk", flat=True)}
    for item, slot in rows.order_by("slot").values_list("item", "slot"):
        slots[item].append(slot)
    return slots


def served(rater: Rater) -> list[tuple[int, int, int]]:
    rows = rater.assignments.filter(opened_at__isnull=False).order_by("position")
    return list(rows.values_list("position", "item", "occasion"))


def waiting(study: Study) -> dict[str, int]:
    """Return how many items each rater still has to rate."""
    rows = Assignment.objects.filter(item__study=study, occasion=1, rating__isnull=True, released_at__isnull=True)
    counted = Counter(rows.values_list("rater__label", flat=True))
    return {label: counted[label] for label in study.raters.values_list("label", flat=True)}


def rate_some(rater: Rater, count: int) -> None:
    for _ in range(count):
        assignment = next_item.find_next_assignment(rater)
        next_item.mark_opened(assignment)
        submit.submit_rating(assignment, True, 3, uuid.uuid4())


def check(study: Study) -> None:
    """Assert what is true at every moment: unique slots, orders without gaps, no two versions, repeats at a distance."""
    for slots in live(study).values():
        assert slots == sorted(set(slots)) and set(slots) <= set(range(1, study.ratings_per_item + 1))
    for rater in study.raters.filter(withdrawn_at__isnull=True):
        rows = list(rater.assignments.order_by("position"))
        assert [row.position for row in rows] == list(range(1, len(rows) + 1))
        first = {row.item_id: row.position for row in rows if row.occasion == 1}
        assert len({row.pair for row in rows if row.occasion == 1}) == len(first)
        distance = study.protocol.get("repeat_distance", 10)
        assert all(row.position - first[row.item_id] > distance for row in rows if row.occasion == 2)


@pytest.fixture
def balanced(db: None) -> Study:
    run_factory.create_pool(40)
    return study_factory.create_open_study(**plain(24), ratings_per_item=3, raters=6, repeats=0.25, repeat_distance=3)


def test_late_rater_gets_unseen_items_only_and_workloads_are_even(balanced) -> None:
    raters = study_factory.fill_all_rater_places(balanced)
    for rater, count in zip(raters, (0, 2, 4, 6, 8, 12), strict=True):
        rate_some(rater, count)
    next_item.mark_opened(next_item.find_next_assignment(raters[1]))
    before = {rater.label: served(rater) for rater in raters}
    late = running_raters.add_rater_places(balanced, 2)
    balanced.refresh_from_db()
    assert [rater.label for rater in late] == ["R07", "R08"] and balanced.protocol["raters"] == 8
    assert {rater.label: served(rater) for rater in raters} == before
    assert set(map(len, live(balanced).values())) == {3}
    check(balanced)
    left = waiting(balanced)
    # 72 assignments, about 32 of them rated on the first occasion: the rest is evened out to newcomers within one.
    assert left["R07"] >= 4 and max(left.values()) - min(left["R07"], left["R08"]) <= 1


def test_late_raters_get_equal_shares_if_nobody_has_rated_yet(balanced) -> None:
    running_raters.add_rater_places(balanced, 3)
    assert set(waiting(balanced).values()) == {8}  # 24 items, three ratings each, nine raters
    check(balanced)


def test_crossed_study_gives_a_late_rater_every_item_and_each_item_needs_one_more_rating(db) -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(**plain(10), design="crossed", ratings_per_item=3)
    rate_some(study_factory.fill_rater_place(study), 4)
    before = served(study.raters.first())
    running_raters.add_rater_places(study, 1)
    study.refresh_from_db()
    assert study.ratings_per_item == study.protocol["ratings_per_item"] == 4
    assert set(map(tuple, live(study).values())) == {(1, 2, 3, 4)}
    assert served(study.raters.first()) == before
    check(study)


@pytest.mark.parametrize("withdrawal", ["keep", "drop"])
def test_crossed_study_with_a_replaced_rater_can_be_duplicated_and_opened(db, withdrawal) -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(**plain(10), design="crossed", ratings_per_item=3, withdrawal=withdrawal)
    running_raters.withdraw_rater(study_factory.fill_rater_place(study))
    study.refresh_from_db()
    running_raters.add_rater_places(study, 1)
    study.refresh_from_db()
    assert set(map(len, live(study).values())) == {3}

    copy = lifecycle.duplicate_study(study)
    lifecycle.open_study(copy)
    assert copy.raters.count() == 3


def test_adding_more_raters_than_allowed_is_refused(balanced) -> None:
    for count in (0, 195):
        with pytest.raises(StudyError, match="add at least 1, up to 200 in the study"):
            running_raters.add_rater_places(balanced, count)
    assert balanced.raters.count() == 6


def test_pool_study_late_rater_gets_no_assignments(db) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(design="pool")
    raters = running_raters.add_rater_places(study, 2)
    assert len(raters) == 2 and not Assignment.objects.exists()


def test_late_rater_does_not_change_the_arms_of_others(db) -> None:
    run_factory.create_pool(20)
    display = {"layouts": ["plain", "aligned"], "context": [False], "marks": ["off"], "by": "rater"}
    study = study_factory.create_open_study(**plain(12), raters=3, display=display)
    before = {rater.pk: {*rater.assignments.values_list("layout", flat=True)} for rater in study.raters.all()}
    late = running_raters.add_rater_places(study, 1)[0]
    after = {rater.pk: {*rater.assignments.values_list("layout", flat=True)} for rater in study.raters.all()}
    assert {pk: after[pk] for pk in before} == before
    assert after[late.pk] == {next_item.get_arm(late).layout}
    assert Counter(layout for own in after.values() for layout in own) == {"plain": 2, "aligned": 2}


def test_withdrawal_reassigns_unrated_items_and_keeps_ratings(balanced) -> None:
    raters = study_factory.fill_all_rater_places(balanced)
    rate_some(raters[0], 5)
    others = {rater.label: served(rater) for rater in raters[1:]}
    dealt = running_raters.withdraw_rater(raters[0], by=raters[0].user)
    # 24 items, three ratings, six raters: twelve each, five of them rated; all pairs differ, so others can have the rest.
    rated = raters[0].assignments.filter(rating__isnull=False, occasion=1).count()
    assert dealt == (12 - rated, 0)
    assert set(map(len, live(balanced).values())) == {3}
    assert {rater.label: served(rater) for rater in raters[1:]} == others
    raters[0].refresh_from_db()
    assert raters[0].withdrawn_at and not raters[0].dropped
    assert next_item.find_next_assignment(raters[0]) is None
    check(balanced)


def test_withdrawal_that_drops_ratings_reassigns_rated_items_as_well(db) -> None:
    run_factory.create_pool(40)
    study = study_factory.create_open_study(**plain(24), ratings_per_item=3, raters=6, withdrawal="drop")
    raters = study_factory.fill_all_rater_places(study)
    rate_some(raters[0], 5)
    assert running_raters.withdraw_rater(raters[0]) == (12, 0)
    raters[0].refresh_from_db()
    assert raters[0].dropped and raters[0].assignments.filter(rating__isnull=False).count() == 5
    assert set(map(len, live(study).values())) == {3}
    for rater in raters[1:]:
        study_factory.rate_everything(rater)
    assert study.raters.get(label="R02").assignments.filter(rating__isnull=False).count() > 12


def test_ratings_that_no_present_rater_may_give_wait_for_another_rater_and_are_logged(db) -> None:
    # Two items, two ratings each, two raters: when one leaves, the other has everything already.
    run_factory.create_pool(10)
    study = study_factory.create_open_study(**plain(2), raters=2)
    gone = study_factory.fill_rater_place(study)
    assert running_raters.withdraw_rater(gone, by=gone.user) == (0, 2)
    event = study.events.get(kind="withdrawn")
    assert event.data == {"rater": "R01", "dropped": False, "dealt": 0, "left": 2}
    assert study_log_texts.get_event_text(study, "withdrawn") == (
        "R01, ratings kept; 0 items reassigned to others; 2 items unassigned until another rater is added"
    )
    assert event.by is None  # the log must not connect a name with a rater's label
    late = running_raters.add_rater_places(study, 1)[0]
    assert late.assignments.count() == 2 and set(map(tuple, live(study).values())) == {(1, 2)}


def test_withdrawal_revokes_the_invitation_and_can_be_repeated(balanced) -> None:
    rater = balanced.raters.first()
    invitations.create_invitation(rater)
    admin = User.objects.create_user("boss")
    running_raters.withdraw_rater(rater, admin)
    assert balanced.events.get(kind="withdrawn").by == admin
    assert running_raters.withdraw_rater(rater, admin) == (0, 0)
    assert balanced.events.filter(kind="withdrawn").count() == 1
    assert rater.invitations.get().revoked_at


def test_withdrawal_is_refused_after_unblinding_and_reassigns_nothing_in_a_closed_study(balanced) -> None:
    raters = study_factory.fill_all_rater_places(balanced)
    lifecycle.close_study(balanced)
    assert running_raters.withdraw_rater(raters[0]) == (0, 0)
    lifecycle.unblind_study(balanced, None)
    with pytest.raises(StudyError, match="is unblinded: its results are final"):
        running_raters.withdraw_rater(raters[1])


def test_reopening_reassigns_items_of_a_rater_who_withdrew_while_the_study_was_closed(db) -> None:
    run_factory.create_pool(40)
    study = study_factory.create_open_study(**plain(12), ratings_per_item=2, raters=4, withdrawal="drop")
    raters = study_factory.fill_all_rater_places(study)
    for rater in raters:
        study_factory.rate_everything(rater)
    lifecycle.close_study(study)
    running_raters.withdraw_rater(raters[0])
    assert waiting(study) == dict.fromkeys(waiting(study), 0)
    # 24 ratings by 4 raters: 6 are dropped and reassigned to the other three
    lifecycle.reopen_study(study)
    assert sum(waiting(study).values()) == 6
    assert study_log_texts.get_event_text(study, "reopened") == "6 items assigned"
    for rater in raters[1:]:
        study_factory.rate_everything(rater)
    assert evaluate_stop_rule(study).met
    check(study)


def test_pool_items_of_a_withdrawn_rater_can_be_reserved_by_others(db) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study(**plain(1), design="pool", ratings_per_item=1, raters=2)
    one, two = study_factory.fill_all_rater_places(study)
    held = next_item.find_next_assignment(one)
    assert next_item.find_next_assignment(two) is None
    running_raters.withdraw_rater(one)
    assert next_item.find_next_assignment(two).item_id == held.item_id


def fresh(study: Study, count: int) -> list[pool.CandidateItem]:
    """Return plain items of the pool that the study does not have."""
    protocol = lifecycle.parse_protocol({**study.protocol, "actions": "all"})
    known = set(study.items.values_list("payload_sha256", flat=True))
    return [found for found in pool.list_usable_candidates(protocol) if found.candidate.content not in known][:count]


def test_added_items_are_assigned_evenly_in_random_order_behind_shown_ones(balanced) -> None:
    raters = study_factory.fill_all_rater_places(balanced)
    for rater in raters:
        rate_some(rater, 3)
    before = {rater.label: served(rater) for rater in raters}
    old = set(balanced.items.values_list("pk", flat=True))
    assert running_raters.add_items(balanced, fresh(balanced, 8)) == 8
    assert balanced.items.count() == 32 and set(map(len, live(balanced).values())) == {3}
    assert {rater.label: served(rater) for rater in raters} == before
    check(balanced)
    assert max(waiting(balanced).values()) - min(waiting(balanced).values()) <= 1
    new_at = [row.position for row in Assignment.objects.filter(occasion=1).exclude(item__in=old)]
    old_at = [row.position for row in Assignment.objects.filter(opened_at__isnull=True, occasion=1, item__in=old)]
    assert min(new_at) > 3 and min(new_at) < max(old_at)  # among the unseen items, not behind them


def test_added_version_is_assigned_to_nobody_with_another_version(db) -> None:
    run_factory.create_pool(12)
    study = study_factory.create_open_study(**plain(12), raters=4)
    document = {**study.protocol, "sources": [{"cast": "offline", "perturbation": "obvious", "count": 1}]}
    twins = pool.list_usable_candidates(lifecycle.parse_protocol(document))
    assert running_raters.add_items(study, twins) == 12
    pairs = Counter(study.items.values_list("source__pair", flat=True))
    assert set(pairs.values()) == {2}
    # Each pair has two versions and four raters: two for each version.
    assert set(map(len, live(study).values())) == {2}
    check(study)


def test_added_version_of_an_item_stored_by_an_earlier_release_is_recognised(db) -> None:
    run_factory.create_pool(12)
    study = study_factory.create_open_study(**plain(12), raters=4)
    for source in ItemSource.objects.all():  # random codes in earlier releases
        ItemSource.objects.filter(pk=source.pk).update(pair=uuid.uuid4())
    document = {**study.protocol, "sources": [{"cast": "offline", "perturbation": "obvious", "count": 1}]}
    running_raters.add_items(study, pool.list_usable_candidates(lifecycle.parse_protocol(document)))
    assert set(Counter(study.items.values_list("source__pair", flat=True)).values()) == {2}


def test_adding_items_of_the_study_again_is_refused(balanced) -> None:
    found = fresh(balanced, 2)
    running_raters.add_items(balanced, found)
    with pytest.raises(PlanError, match="2 items would be in the study twice"):
        running_raters.add_items(balanced, found)
    lifecycle.close_study(balanced)
    with pytest.raises(StudyError, match="raters and items are added while a study runs"):
        running_raters.add_items(balanced, fresh(balanced, 1))
    with pytest.raises(StudyError, match="is closed"):
        running_raters.add_rater_places(balanced, 1)


def test_items_added_to_a_pool_study_can_be_reserved(db) -> None:
    run_factory.create_pool(20)
    study = study_factory.create_open_study(**plain(2), design="pool", ratings_per_item=1, raters=1)
    rater = study_factory.fill_rater_place(study)
    assert study_factory.rate_everything(rater) == 2
    running_raters.add_items(study, fresh(study, 3))
    assert study_factory.rate_everything(rater) == 3


def test_finished_rater_is_assigned_nothing_more(balanced) -> None:
    raters = study_factory.fill_all_rater_places(balanced)
    Rater.objects.filter(pk=raters[0].pk).update(finished_at=timezone.now())
    running_raters.add_items(balanced, fresh(balanced, 4))
    assert raters[0].assignments.filter(occasion=1).count() == 12


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.one_database) for seed in range(1, 6))])
def test_reassignment_in_random_order_keeps_shown_items_and_still_completes_the_study(db, seed) -> None:
    """Rating, late raters, withdrawals and added items in random order; then everybody finishes."""
    rng = random.Random(seed)
    run_factory.create_pool(60)
    study = study_factory.create_open_study(
        **plain(20), seed=seed, ratings_per_item=3, raters=6, repeats=rng.choice((0, 0.2)), repeat_distance=3,
        withdrawal=rng.choice(("keep", "drop")),
    )  # fmt: skip
    acts = ["rate"] * 12 + ["late"] * 2 + ["leave"] * 2 + ["items"] * 2
    rng.shuffle(acts)
    for act in acts:
        raters = [
            *study_factory.fill_all_rater_places(study),
            *study.raters.filter(withdrawn_at=None, user__isnull=False),
        ]
        rater = rng.choice(raters)
        before = {one.pk: served(one) for one in raters if one != rater}
        if act == "rate":
            for _ in range(rng.randint(1, 4)):
                if next_item.find_next_assignment(rater):
                    rate_some(rater, 1)
        elif act == "late":
            running_raters.add_rater_places(study, 1)
        elif act == "leave":
            running_raters.withdraw_rater(rater)
        else:
            running_raters.add_items(study, fresh(study, 5))
        study.refresh_from_db()
        check(study)
        assert {one.pk: served(one) for one in raters if one != rater} == before
    running_raters.add_rater_places(study, 3)
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    for rater in study.raters.filter(withdrawn_at=None):
        study_factory.rate_everything(rater)
    study.refresh_from_db()
    assert set(map(len, live(study).values())) == {3}


@pytest.mark.django_db(transaction=True)
def test_item_opened_while_raters_are_added_remains_with_its_rater() -> None:
    run_factory.create_pool(40)
    study = study_factory.create_open_study(**plain(24), ratings_per_item=2, raters=4)
    raters = study_factory.fill_all_rater_places(study)
    jobs: list[Any] = [lambda: running_raters.add_rater_places(study, 2)]
    jobs += [lambda rater=rater: [rate_or_leave(rater) for _ in range(6)] for rater in raters]
    results = run_concurrently(lambda: jobs.pop()(), threads=5)
    assert [result for result in results if isinstance(result, Exception)] == []
    check(study)
    assert set(map(len, live(study).values())) == {2}
    assert not Assignment.objects.filter(rating__isnull=False, released_at__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_repeat_opened_while_the_order_is_shuffled_remains_with_its_rater() -> None:
    run_factory.create_pool(40)
    study = study_factory.create_open_study(**plain(12), ratings_per_item=1, raters=1, repeats=0.25, repeat_distance=2)
    (rater,) = study_factory.fill_all_rater_places(study)
    repeat = rater.assignments.filter(occasion=2).order_by("position").first()
    assert repeat is not None
    shown = threading.Event()

    def show() -> None:
        with transaction.atomic():
            assert next_item.mark_opened(repeat)
            shown.set()
            time.sleep(0.5)  # long enough for the other thread to read the unseen rows; it has to wait for this one

    def lay_out() -> None:
        assert shown.wait(timeout=30)
        with transaction.atomic():
            Study.objects.select_for_update().get(pk=study.pk)
            reassign.shuffle_remaining(study, [rater.pk])

    jobs = [show, lay_out]
    assert run_concurrently(lambda: jobs.pop()(), threads=2) == [None, None]
    assert served(rater) == [(repeat.position, repeat.item_id, 2)]


def rate_or_leave(rater: Rater) -> None:
    """Rate as the page does: items that were reassigned in the meantime are not shown."""
    assignment = next_item.find_next_assignment(rater)
    if assignment and next_item.mark_opened(assignment):
        submit.submit_rating(assignment, True, 3, uuid.uuid4())
