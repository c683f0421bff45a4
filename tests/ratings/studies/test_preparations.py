"""Opening in short transactions: what is prepared is seen by nobody, and published only if nothing has changed meanwhile."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ratings.exchange.imports import item_imports
from ratings.models import Assignment, Item, ItemSource, Rater, RenderedItem, Study
from ratings.protocol import assign_items
from ratings.studies import StudyError, freeze, lifecycle, opening_jobs, pool, preparations, quarantine
from ratings.web.study.study import add_list_counts
from simulation.models import Job, Twin
from tests.ratings.exchange.test_imports_items import file, line
from tests.support import run_factory, study_factory
from tests.support.embedded_worker import run_until_idle
from wetbench_site.maintenance.verify import ALL_CHECKS, checks

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

# Ten items in pieces of four, 20 assignments in pieces of eight: 3 + 1 (raters) + 3 transactions that store something.
N_STORED = 7


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze, "ITEMS_AT_ONCE", 4)
    monkeypatch.setattr(freeze, "ASSIGNMENTS_AT_ONCE", 8)


@pytest.fixture
def draft() -> Study:
    """A draft of ten items, two ratings each, over a pool with a few more than it needs."""
    run_factory.create_pool(12)
    return create_draft()


def create_draft(**changes: Any) -> Study:
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(**changes)))
    Study.objects.filter(pk=study.pk).update(salt="salt")
    return study


def call_before_store(monkeypatch: pytest.MonkeyPatch, call: Callable[[], object], number: int = 5) -> None:
    """Call this once, before the transaction with this number (1, 2, ...) that stores a part of an opening."""
    store_rows, calls = preparations.store_rows, iter(range(1, 1000))

    def store(*arguments: Any) -> Any:
        if next(calls) == number:
            call()
        return store_rows(*arguments)

    monkeypatch.setattr(preparations, "store_rows", store)


def kill(*_: Any, **__: Any) -> None:
    raise Killed


def read_plan(study: Study) -> list[tuple[Any, ...]]:
    rows = Assignment.objects.filter(item__study=study).order_by("rater__label", "position")
    return list(rows.values_list("rater__label", "position", "slot", "item__payload_sha256"))


def count_rows() -> list[int]:
    rows = (Item.objects, ItemSource.objects, Rater.objects, Assignment.objects, Study.with_preparations)
    return [manager.count() for manager in rows]


def test_opening_plans_without_a_transaction_and_reads_without_the_write_lock(
    draft: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    within_test, states = len(connection.savepoint_ids), []

    def record(where: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any, **options: Any) -> Any:
            states.append((where, len(connection.savepoint_ids) - within_test))
            return function(*arguments, **options)

        return recorded

    monkeypatch.setattr(pool, "take_inventory", record("choosing", pool.take_inventory))
    monkeypatch.setattr(assign_items, "plan_assignments", record("planning", assign_items.plan_assignments))
    monkeypatch.setattr(freeze, "build_items", record("building", freeze.build_items))
    monkeypatch.setattr(preparations, "publish_rows", record("publishing", preparations.publish_rows))
    lifecycle.open_study(draft)
    # Publishing is the only one of these steps that runs in a transaction within that of the test.
    assert states == [
        ("choosing", 0), ("planning", 0), ("building", 0), ("building", 0), ("building", 0), ("publishing", 1)
    ]  # fmt: skip


def test_publishing_takes_as_many_statements_for_few_and_many_items() -> None:
    run_factory.create_pool(30)
    numbers = []
    for count in (3, 30):
        source = {"cast": "offline", "perturbation": "none", "count": count}
        study = create_draft(slug=f"of-{count}", name=f"Of {count}", sources=[source])

        def count_statements(publish: Callable[[], None]) -> None:
            with CaptureQueriesContext(
                connection,
            ) as queries:
                publish()
            numbers.append(len(queries))

        lifecycle.open_study(study, commit=count_statements)
    assert numbers[0] == numbers[1] < 30


@pytest.mark.parametrize("number", range(1, N_STORED + 1))
def test_opening_killed_while_it_stores_can_be_repeated(
    draft: Study, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with monkeypatch.context() as broken:
        call_before_store(broken, kill, number)
        broken.setattr(preparations, "delete_preparation", lambda preparation: None)  # a killed process tidies nothing
        with pytest.raises(Killed):
            lifecycle.open_study(draft)
    check_repeatable(draft)


@pytest.mark.parametrize(
    "step",
    ["preparations.publish_rows", "pool.record_pool_decisions", "lifecycle._change_status", "lifecycle.log_event"],
)
def test_opening_killed_while_it_publishes_can_be_repeated(
    draft: Study, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(f"ratings.studies.{step}", kill)
        broken.setattr(preparations, "delete_preparation", lambda preparation: None)
        with pytest.raises(Killed):
            lifecycle.open_study(draft)
    check_repeatable(draft)


def check_repeatable(draft: Study) -> None:
    """Assert that the interrupted opening is invisible, and that the next one gives what an undisturbed one gives."""
    draft.refresh_from_db()
    assert (draft.status, draft.items.count(), draft.raters.count()) == ("draft", 0, 0)
    assert Study.with_preparations.count() == 2 and list(Study.objects.all()) == [draft]
    results = list(
        checks.run_checks([one for one in ALL_CHECKS if "ratings" in one.model._meta.db_table], lambda *_: None)
    )
    assert [(result.check.name, result.findings) for result in results if result.findings] == []
    lifecycle.open_study(draft)
    draft.refresh_from_db()
    assert draft.status == "open" and count_rows() == [10, 10, 6, 20, 1]
    undisturbed = create_draft(slug="other", name="Other")
    lifecycle.open_study(undisturbed)
    assert read_plan(draft) == read_plan(undisturbed)


def test_opening_killed_after_it_has_published_is_complete(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(preparations, "delete_preparations", kill)
        with pytest.raises(Killed):
            lifecycle.open_study(draft)
    draft.refresh_from_db()
    assert draft.status == "open" and count_rows() == [10, 10, 6, 20, 1]
    assert set(draft.raters.values_list("waiting_items", flat=True)) <= {3, 4}


def test_draft_opened_by_two_people_at_once_opens_once(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    call_before_store(monkeypatch, lambda: lifecycle.open_study(draft))
    with pytest.raises(StudyError, match="Small study is open; only a study that is draft can be opened"):
        lifecycle.open_study(draft)
    assert count_rows() == [10, 10, 6, 20, 1]
    assert [event.kind for event in draft.events.all()] == ["created", "opened"]


def test_draft_edited_during_its_opening_stays_a_draft(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = lifecycle.parse_protocol(study_factory.build_protocol(ratings_per_item=1))
    with monkeypatch.context() as disturbed:
        call_before_store(disturbed, lambda: lifecycle.edit_draft(draft, edited))
        with pytest.raises(StudyError, match="Small study was edited while it was being opened: read it again"):
            lifecycle.open_study(draft)
    assert count_rows() == [0, 0, 0, 0, 1]
    lifecycle.open_study(draft)
    assert Assignment.objects.filter(item__study=draft).count() == 10


def test_draft_deleted_during_its_opening_leaves_nothing(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    call_before_store(monkeypatch, lambda: lifecycle.delete_draft(draft))
    with pytest.raises(StudyError, match="Small study was deleted"):
        lifecycle.open_study(draft)
    assert count_rows() == [0, 0, 0, 0, 0]


def test_twin_rejected_during_an_opening_is_not_in_the_study(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    store_opening = freeze.store_opening

    def reject_one(study: Study, plan: freeze.OpeningPlan, *more: Any) -> None:
        if not chosen:
            chosen.append(next(one.origin["twin_id"] for one in plan.chosen if "twin_id" in one.origin))
            Twin.objects.filter(pk=chosen[0]).update(vetting="rejected")
        store_opening(study, plan, *more)

    monkeypatch.setattr(freeze, "store_opening", reject_one)
    lifecycle.open_study(draft)
    assert draft.items.count() == 10 and not ItemSource.objects.filter(twin=chosen[0]).exists()


def test_item_unblinded_elsewhere_during_an_opening_is_left_out(
    monkeypatch: pytest.MonkeyPatch, admin_user: User
) -> None:
    run_factory.create_pool(4)
    source = [{"cast": "offline", "perturbation": "none", "count": 2}]
    running = study_factory.create_open_study(slug="running", name="Running", sources=source)
    study = create_draft(sources=source, seed=1)
    shown = set(running.items.values_list("payload_sha256", flat=True))
    call_before_store(monkeypatch, lambda: lifecycle.close_and_unblind(running, admin_user), 1)
    lifecycle.open_study(study)
    assert not shown & set(study.items.values_list("payload_sha256", flat=True))
    assert study.events.get(kind="opened").data["left_out"] == 2


def test_items_imported_or_removed_during_an_opening_are_in_the_study_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    study = create_draft(sources=[])
    item_imports.import_file(study, file(line(1), line(2)))

    def replace_items() -> None:
        item_imports.remove_all_items(study)
        item_imports.import_file(study, file(line(3), line(4), line(5)))

    call_before_store(monkeypatch, replace_items, 2)
    lifecycle.open_study(study)
    keys = ItemSource.objects.filter(item__study=study).values_list("imported__key", flat=True)
    assert sorted(keys) == ["item-3", "item-4", "item-5"]


def test_item_released_from_quarantine_during_an_opening_is_in_the_study(
    monkeypatch: pytest.MonkeyPatch, admin_user: User
) -> None:
    study = create_draft(sources=[])
    revealing = line(2)
    revealing["outcome"]["new_observations"][0]["description"] = "an implausible colour"
    item_imports.import_file(study, file(line(1), revealing))
    protocol = lifecycle.parse_protocol(study.protocol)

    def release() -> None:
        (held,) = pool.take_inventory(protocol, study).held
        quarantine.record_decision(study, held, "released", admin_user)

    call_before_store(monkeypatch, release, 1)
    lifecycle.open_study(study)
    assert study.items.count() == 2


def test_study_that_changes_at_each_preparation_is_not_opened(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze, "is_current", lambda *_: False)
    with pytest.raises(StudyError, match="changed each time that it was prepared for opening; open it again"):
        lifecycle.open_study(draft)
    assert count_rows() == [0, 0, 0, 0, 1]


def test_nothing_of_a_preparation_is_shown_or_counted(
    draft: Study, monkeypatch: pytest.MonkeyPatch, boss: Client
) -> None:
    pages = [
        "/studies/",
        f"/studies/{draft.slug}/",
        f"/studies/{draft.slug}/raters/",
        "/admin/ratings/rater/",
        "/admin/ratings/study/",
    ]
    seen: list[str] = []

    def look() -> None:
        assert Rater.objects.count() == 6 and Item.objects.count() == 10  # the rows exist
        [listed] = add_list_counts(Study.objects.all())
        assert (listed.n_items, listed.wanted) == (0, 0)
        seen.extend(boss.get(page, follow=True).content.decode() for page in pages)

    call_before_store(monkeypatch, look, N_STORED)
    lifecycle.open_study(draft)
    assert len(seen) == len(pages) and not [text for text in seen if "R01" in text or "preparing-" in text]


def test_draft_with_an_interrupted_opening_can_be_deleted(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_opening(draft, monkeypatch)
    lifecycle.delete_draft(draft)
    assert count_rows() == [0, 0, 0, 0, 0]


def test_imported_items_of_an_interrupted_opening_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    study = create_draft(sources=[])
    item_imports.import_file(study, file(line(1), line(2)))
    interrupt_opening(study, monkeypatch, 3)
    assert item_imports.remove_all_items(study) == 2
    assert count_rows() == [0, 0, 0, 0, 1]


def test_abandoned_preparation_is_deleted_after_an_hour(draft: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_opening(draft, monkeypatch)
    preparations.delete_abandoned()
    assert Study.with_preparations.count() == 2
    earlier = timezone.now() - timedelta(hours=1, minutes=1)
    Study.with_preparations.exclude(pk=draft.pk).update(created_at=earlier)
    preparations.delete_abandoned()
    assert count_rows() == [0, 0, 0, 0, 1]


def interrupt_opening(draft: Study, monkeypatch: pytest.MonkeyPatch, number: int = N_STORED) -> None:
    with monkeypatch.context() as broken:
        call_before_store(broken, kill, number)
        broken.setattr(preparations, "delete_preparation", lambda preparation: None)
        with pytest.raises(Killed):
            lifecycle.open_study(draft)
    assert Study.with_preparations.count() == 2 and Item.objects.exists()


def test_large_study_is_opened_by_a_worker_and_its_page_shows_the_job(
    draft: Study, monkeypatch: pytest.MonkeyPatch, boss: Client
) -> None:
    monkeypatch.setattr(opening_jobs, "MIN_JOB_ITEMS", 10)
    page = boss.post(f"/studies/{draft.slug}/open/", follow=True).content.decode()
    assert "Opening of a study" in page and "Queued" in page
    run_until_idle()
    job, draft = Job.objects.get(), Study.objects.get(pk=draft.pk)
    assert (job.status, job.result["said"]) == ("done", "The study is open. You can now invite raters.")
    assert draft.status == "open" and draft.events.get(kind="opened").by == User.objects.get(username="root")
    assert RenderedItem.objects.filter(item__study=draft).count() == 10


def test_opening_job_that_cannot_open_states_the_reason_on_the_page(
    monkeypatch: pytest.MonkeyPatch, boss: Client
) -> None:
    run_factory.create_pool(2)
    study = create_draft()
    monkeypatch.setattr(opening_jobs, "MIN_JOB_ITEMS", 10)
    boss.post(f"/studies/{study.slug}/open/")
    run_until_idle()
    assert "needs 3 obvious twins by offline, the pool holds 2" in boss.get(f"/studies/{study.slug}/").content.decode()
    assert Study.objects.get(pk=study.pk).is_draft


def test_worker_that_ends_after_opening_is_replaced_by_one_that_only_renders(
    draft: Study, monkeypatch: pytest.MonkeyPatch, admin_user: User
) -> None:
    job = opening_jobs.request_opening(draft, admin_user)
    lifecycle.open_study(draft, by=admin_user)
    RenderedItem.objects.all().delete()
    run_until_idle()
    job.refresh_from_db()
    assert job.status == "done" and RenderedItem.objects.filter(item__study=draft).count() == 10
    assert draft.events.filter(kind="opened").count() == 1
