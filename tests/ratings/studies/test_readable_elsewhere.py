"""No rater is assigned an item whose source their account can read in another study or in the laboratory."""

import threading
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection, connections, transaction
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.models import Assignment, Item, ItemSource, Rater, Study, StudyEvent
from ratings.protocol import PlanError, ProtocolError
from ratings.raters import email_messages, invitations, mailings
from ratings.rating import next_item, submit
from ratings.studies import StudyError, access, lifecycle, pool, readable_elsewhere, running_raters
from ratings.studies.blinding_audit import audit_runner, stored_items
from simulation.models import Run, Transition, Twin, TwinDecision
from tests.support import run_factory, study_factory, study_log_texts

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
KNOWN, NEW = 6, 10  # items of the finished study; items that the new one has of the pool of ten


def only(count: int, **more: Any) -> dict[str, Any]:
    """Settings of a study with this many items, no two of which are versions of one thing."""
    return {"sources": [{"cast": "offline", "perturbation": "none", "count": count}], **more}


def twins(count: int, **more: Any) -> dict[str, Any]:
    return {"sources": [{"cast": "offline", "perturbation": "subtle", "count": count}], **more}


@pytest.fixture
def owner() -> User:
    return User.objects.create_user("owner", is_staff=True)


@pytest.fixture
def analyst() -> User:
    return User.objects.create_user("analyst", email="analyst@example.org")


@pytest.fixture
def finished(owner: User, analyst: User) -> Study:
    """An unblinded study of six of the pool's ten steps; the analyst can read its results."""
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**only(KNOWN), name="Finished", slug="finished", ratings_per_item=1)
    access.add_member(study, analyst.username, "analyst", owner)
    return study_factory.unblind_study(study, owner)


def join(rater: Rater, user: User) -> Rater:
    """Join as this rater by a personal link, as the consent page does."""
    invitation = invitations.find_invitation(invitations.create_invitation(rater))
    assert invitation is not None
    taken = invitations.accept_invitation(invitation, user, invitations.JoinForm())
    Rater.objects.filter(pk=taken.pk).update(started_at=timezone.now(), guide_seen=1, practised_at=timezone.now())
    return Rater.objects.select_related("study", "user").get(pk=taken.pk)


def dealt(rater: Rater) -> set[str]:
    """Return the pairs that this rater has to rate or has rated."""
    rows = Assignment.objects.filter(rater=rater, released_at__isnull=True)
    return set(rows.values_list("item__pair_sha256", flat=True))


def known(study: Study) -> set[str]:
    return set(study.items.values_list("pair_sha256", flat=True))


def told(study: Study) -> list[str]:
    return study_log_texts.list_event_texts(study, "taken back")


def answer(assignment: Assignment | None) -> None:
    assert assignment
    next_item.mark_opened(assignment)
    submit.submit_rating(assignment, True, 3, uuid.uuid4())


def live(study: Study) -> int:
    return Assignment.objects.filter(item__study=study, occasion=1, released_at__isnull=True).count()


def test_pair_digest_is_equal_in_all_studies_for_versions_of_one_step_and_for_no_others() -> None:
    run_factory.create_pool(4)
    originals = study_factory.create_open_study(**only(4), ratings_per_item=1)
    errors = study_factory.create_open_study(**twins(4), name="Errors", slug="errors", ratings_per_item=1)
    assert len(known(originals)) == 4 and known(originals) == known(errors)
    assert not set(originals.items.values_list("payload_sha256", flat=True)) & set(
        errors.items.values_list("payload_sha256", flat=True)
    )


def test_analyst_of_an_unblinded_study_is_assigned_none_of_its_items_and_others_get_them(finished, analyst) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=2, raters=4)
    free = study.raters.get(label="R01")
    planned = len(dealt(free) & known(finished))
    assert planned  # R01 was to rate some of what the analyst can read
    rater = join(free, analyst)
    assert dealt(rater) == known(study) - known(finished)  # the four that they cannot read, in exchange
    assert live(study) == 2 * NEW  # no rating is lost: the others give those that they may not
    for item in study.items.all():
        assert item.assignments.filter(released_at__isnull=True).count() == 2
    assert told(study) == [f"{planned} item{'s' * (planned != 1)} not assigned to raters who can see them elsewhere"]
    assert list(rater.assignments.order_by("position").values_list("position", flat=True)) == [1, 2, 3, 4]


def test_readable_original_makes_its_twin_readable_too(finished, analyst) -> None:
    study = study_factory.create_open_study(**twins(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), analyst)
    assert dealt(rater) == known(study) - known(finished) and len(dealt(rater)) == NEW - KNOWN


def test_rater_without_a_role_in_the_other_study_is_assigned_its_items(finished) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=1)
    rater = join(study.raters.get(), User.objects.create_user("somebody"))
    assert len(dealt(rater)) == NEW and told(study) == []


def test_rater_with_a_personal_link_can_read_nothing_elsewhere(finished) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=1)
    invitation = invitations.find_invitation(invitations.create_invitation(study.raters.get()))
    rater = invitations.accept_invitation(invitation, AnonymousUser(), invitations.JoinForm())
    assert len(dealt(rater)) == NEW


def test_revoked_role_still_makes_items_readable(finished, analyst, owner) -> None:
    access.remove_member(finished, finished.members.get(user=analyst), owner)
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    assert not dealt(join(study.raters.get(label="R01"), analyst)) & known(finished)


def test_crossed_study_leaves_readable_items_unrated_and_logs_how_many(finished, analyst) -> None:
    study = study_factory.create_open_study(
        **only(NEW), allow_unblinded=True, ratings_per_item=2, raters=2, design="crossed"
    )
    rater = join(study.raters.get(label="R01"), analyst)
    assert len(dealt(rater)) == NEW - KNOWN
    assert live(study) == 2 * NEW - KNOWN
    assert told(study) == [
        f"{KNOWN} items not assigned to raters who can see them elsewhere; {KNOWN} items unassigned until another rater is added"
    ]
    page = reverse("ratings:study", args=[study.slug])
    boss = Client()
    boss.force_login(User.objects.create_superuser("boss"))
    assert f"{KNOWN} ratings cannot be assigned" in boss.get(page).content.decode()
    running_raters.add_rater_places(study, 1)
    assert live(study) == 3 * NEW - KNOWN  # the new rater has all ten


def test_crossover_releases_a_readable_case_from_both_sessions(finished, analyst) -> None:
    sources = [{"cast": "offline", "perturbation": p, "count": NEW} for p in ("none", "subtle")]
    study = study_factory.create_open_study(
        sources=sources,
        allow_unblinded=True,
        ratings_per_item=2,
        design="crossover",
        conditions="twins",
        washout_days=0,
    )
    rater = join(study.raters.get(label="R01"), analyst)
    assert not dealt(rater) & known(finished) and rater.assignments.count() == 2 * (NEW - KNOWN)
    assert told(study)[0].endswith(f"; {2 * KNOWN} items unassigned until another rater is added")


def test_crossover_releases_the_version_of_session_two_although_the_first_was_shown(finished, owner) -> None:
    sources = [{"cast": "offline", "perturbation": p, "count": NEW} for p in ("none", "subtle")]
    study = study_factory.create_open_study(
        sources=sources,
        allow_unblinded=True,
        ratings_per_item=2,
        design="crossover",
        conditions="twins",
        washout_days=0,
    )
    rater = join(study.raters.get(label="R01"), User.objects.create_user("later"))
    for _ in range(NEW):
        answer(next_item.find_next_assignment(rater))
    access.add_member(finished, "later", "analyst", owner)
    second = rater.assignments.filter(session=2)
    assert second.count() == NEW - KNOWN and not second.filter(item__pair_sha256__in=known(finished)).exists()
    assert f"; {KNOWN} cases of the crossover left incomplete; " in told(study)[0]


@pytest.mark.parametrize("design", ["balanced", "pool"])
def test_readable_items_are_not_repeated(finished, owner, design) -> None:
    study = study_factory.create_open_study(
        **only(NEW),
        allow_unblinded=True,
        ratings_per_item=1,
        raters=1,
        design=design,
        repeats=0.5,
        repeat_distance=1,
    )
    rater = join(study.raters.get(), User.objects.create_user("later"))
    for _ in range(7 if design == "balanced" else 5):
        answer(next_item.find_next_assignment(rater))
    shown = set(rater.assignments.filter(opened_at__isnull=False).values_list("pk", flat=True))
    access.add_member(finished, "later", "analyst", owner)
    while assignment := next_item.find_next_assignment(rater):
        answer(assignment)
    later = rater.assignments.filter(rating__isnull=False).exclude(pk__in=shown)
    assert later.exists() and not later.filter(item__pair_sha256__in=known(finished)).exists()


def test_pool_study_offers_no_readable_items_and_does_not_count_them(finished, analyst) -> None:
    study = study_factory.create_open_study(
        **only(NEW), allow_unblinded=True, ratings_per_item=1, raters=1, design="pool"
    )
    rater = join(study.raters.get(), analyst)
    assert next_item.count_progress(rater).total == NEW - KNOWN
    given = 0
    while assignment := next_item.find_next_assignment(rater):
        next_item.mark_opened(assignment)
        submit.submit_rating(assignment, True, 3, uuid.uuid4())
        given += 1
    assert given == NEW - KNOWN and not dealt(rater) & known(finished)
    assert next_item.find_return_time(rater) is None


def test_account_that_can_read_every_item_cannot_join(finished, analyst) -> None:
    study = study_factory.create_open_study(**only(KNOWN), allow_unblinded=True, ratings_per_item=1, raters=1)
    assert known(study) == known(finished)
    token = invitations.create_invitation(study.raters.get())
    with pytest.raises(StudyError, match="reader"):
        invitations.accept_invitation(invitations.find_invitation(token), analyst, invitations.JoinForm())
    client = Client()
    client.force_login(analyst)
    page = client.get(f"/r/{token}/")
    assert b"who can see in another study where the items of Small study came from" in page.content
    assert not study.raters.get().user_id


def test_invitation_to_an_account_that_can_read_every_item_creates_no_new_account(finished, analyst) -> None:
    study = study_factory.create_open_study(**only(KNOWN), allow_unblinded=True, ratings_per_item=1, raters=1)
    token = invitations.create_invitation(study.raters.get(), email=analyst.email)
    page = Client().get(f"/r/{token}/")
    assert (
        page.status_code == 410 and b"can read the sources of this study&#x27;s items in another study" in page.content
    )
    with pytest.raises(
        invitations.InvitationExpired, match="can read the sources of this study's items in another study"
    ):
        invitations.accept_invitation(invitations.find_invitation(token), AnonymousUser(), invitations.JoinForm())
    assert not study.raters.get().user_id


@pytest.mark.parametrize("right", ["is_staff", "is_superuser"])
def test_invitation_of_a_staff_address_is_refused_when_sent_and_when_opened(owner, right) -> None:
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**only(NEW), ratings_per_item=1, raters=2)
    staff = User.objects.create_user("colleague", email="Colleague@lab.org")
    before = invitations.create_invitation(
        study.raters.get(label="R01"), email="colleague@lab.org"
    )  # they were not yet staff
    setattr(staff, right, True)
    staff.save()
    with pytest.raises(mailings.AddressError) as refused:
        mailings.invite_people(
            study,
            mailings.parse_addresses("somebody@lab.org\ncolleague@LAB.org"),
            owner,
            email_messages.make_url_builder(site="http://testserver"),
        )
    assert refused.value.problems == [
        "Line 2: colleague@LAB.org is the address of staff, who can read the sources of items and cannot rate"
    ]
    page = Client().get(f"/r/{before}/")
    assert page.status_code == 410 and b"The account of this address is staff" in page.content
    with pytest.raises(invitations.InvitationExpired, match="is staff"):
        invitations.accept_invitation(invitations.find_invitation(before), AnonymousUser(), invitations.JoinForm())
    assert not study.raters.filter(user__isnull=False).exists() and User.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_role_given_while_a_rater_joins_waits_and_then_releases_the_readable_items(owner) -> None:
    run_factory.create_pool(NEW)
    finished = study_factory.create_open_study(**only(KNOWN), name="Finished", slug="finished", ratings_per_item=1)
    study_factory.unblind_study(finished, owner)
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=1)
    user = User.objects.create_user("later")
    invitation = invitations.find_invitation(invitations.create_invitation(study.raters.get()))
    assert invitation is not None

    def give_role() -> None:
        access.add_member(finished, "later", "analyst", owner)
        connections.close_all()

    with transaction.atomic():
        rater = invitations.accept_invitation(invitation, user, invitations.JoinForm())
        if connection.vendor == "postgresql":  # SQLite has one writer at a time: there the role comes after the rater
            other = threading.Thread(target=give_role)
            other.start()
            other.join(2)
            assert other.is_alive()
    if connection.vendor == "postgresql":
        other.join(30)
        assert not other.is_alive()
    else:
        access.add_member(finished, "later", "analyst", owner)
    assert not dealt(rater) & known(finished)


def test_unblinding_releases_items_of_its_analysts_in_other_studies(owner, analyst) -> None:
    run_factory.create_pool(NEW)
    first = study_factory.create_open_study(**only(KNOWN), name="First", slug="first", ratings_per_item=1)
    access.add_member(first, analyst.username, "analyst", owner)
    second = study_factory.create_open_study(**only(NEW), ratings_per_item=1, raters=2)
    rater = join(second.raters.get(label="R01"), analyst)
    assert dealt(rater) & known(first)  # sealed: nothing is readable there
    study_factory.unblind_study(first, owner)
    assert not dealt(rater) & known(first) and live(second) == NEW and len(told(second)) == 1


def test_role_given_in_an_unblinded_study_releases_only_items_the_rater_has_not_seen(finished, owner) -> None:
    account = User.objects.create_user("later")
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), account)
    shown = next(row for row in rater.assignments.order_by("position") if row.item.pair_sha256 in known(finished))
    Assignment.objects.filter(pk=shown.pk).update(opened_at=timezone.now())
    access.add_member(finished, "later", "analyst", owner)
    assert dealt(rater) & known(finished) == {shown.item.pair_sha256}


def test_reopening_a_study_releases_readable_items(finished, analyst, owner) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), User.objects.create_user("later"))
    lifecycle.close_study(study)
    access.add_member(finished, "later", "analyst", owner)
    assert dealt(rater) & known(finished)
    lifecycle.reopen_study(study)
    assert not dealt(rater) & known(finished)


def test_added_items_and_reassigned_work_exclude_readable_items(finished, analyst) -> None:
    study = study_factory.create_open_study(**only(KNOWN + 1), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), analyst)
    held = set(study.items.values_list("payload_sha256", flat=True))
    protocol = lifecycle.parse_protocol({**study.protocol, **only(NEW)})
    running_raters.add_items(
        study, [one for one in pool.list_usable_candidates(protocol) if one.candidate.content not in held]
    )
    assert not dealt(rater) & known(finished)
    running_raters.withdraw_rater(study.raters.get(label="R02"))
    assert dealt(rater) == known(study) - known(finished)


def test_staff_can_read_pool_items_in_the_laboratory(owner) -> None:
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**only(NEW), ratings_per_item=1, raters=1)
    rater = study_factory.fill_rater_place(study)
    assert readable_elsewhere.find_readable(study, [rater]) == {}
    User.objects.filter(pk=rater.user_id).update(is_staff=True)
    assert len(readable_elsewhere.find_readable_by(study, rater)) == NEW


@pytest.mark.parametrize("unblinded_kind", ["evidence", "transitions"])
def test_evidence_record_makes_the_steps_of_its_episode_readable_and_vice_versa(owner, analyst, unblinded_kind) -> None:
    run_factory.create_evidence_pool(6)
    for step in Transition.objects.filter(episode__replicate__gt=2):
        run_factory.create_twin(step, "subtle")
    records = study_factory.build_evidence_protocol(6, slug="records", ratings_per_item=1)
    steps = study_factory.build_protocol(**twins(8, name="Steps", slug="steps", ratings_per_item=1))
    documents = [records, steps] if unblinded_kind == "evidence" else [steps, records]
    first, second = (study_factory.create_open_study(4, **document) for document in documents)
    access.add_member(first, analyst.username, "analyst", owner)
    study_factory.unblind_study(first, owner)
    rater = Rater(pk=0, study=second, user=analyst)
    # All eight twins are of episodes that are in the evidence study; of its six records, two have an episode without a twin.
    expected = 8 if unblinded_kind == "evidence" else 4
    assert len(readable_elsewhere.find_readable_by(second, rater)) == expected
    assert readable_elsewhere.find_running_studies_sharing_items(first) == [second]
    stranger = Rater(pk=0, study=second, user=User.objects.create_user("stranger"))
    assert readable_elsewhere.find_readable_by(second, stranger) == set()


@pytest.mark.parametrize("way", ["vetted", "decided before", "ordered", "played", "imported"])
def test_account_that_created_or_judged_an_item_can_read_it_without_being_staff(way) -> None:
    owner = User.objects.create_user("maker")
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**twins(NEW), ratings_per_item=1)
    known = ItemSource.objects.filter(item__study=study).first()
    assert known
    if way == "vetted":
        Twin.objects.filter(pk=known.twin_id).update(vetting="accepted", vetted_by=owner, vetted_at=timezone.now())
    elif way == "decided before":
        TwinDecision.objects.create(twin=known.twin, decision="accepted", perturbation="subtle", by=owner)
    elif way == "ordered":
        Run.objects.filter(pk=known.twin.run_id).update(created_by=owner)
    elif way == "played":
        Run.objects.filter(pk=known.transition.episode.run_id).update(created_by=owner)
    else:
        line = study.imported_items.create(
            key="1", record={}, payload={}, payload_sha256="1" * 64, label="x", perturbation="none", by=owner
        )
        ItemSource.objects.filter(pk=known.pk).update(transition=None, twin=None, imported=line)
    readable = readable_elsewhere.find_readable_by(study, Rater(pk=0, study=study, user=owner))
    assert known.item_id in readable
    finished = Rater(pk=0, study=study, user=owner, finished_at=timezone.now() - timedelta(days=1))
    assert readable_elsewhere.find_readable_by(study, finished) == set()


@pytest.mark.parametrize("asked", [only, twins])
def test_vetter_of_a_twin_is_assigned_neither_the_original_nor_other_twins(asked) -> None:
    vetter = User.objects.create_user("vetter")
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**asked(NEW), ratings_per_item=1, raters=1)
    seen = Twin.objects.filter(perturbation="obvious", transition__number__lte=4)
    seen.update(vetting="accepted", vetted_by=vetter, vetted_at=timezone.now())
    rater = join(study.raters.get(), vetter)
    steps = Transition.objects.filter(number__lte=4)
    known = ItemSource.objects.filter(item__study=study, transition__in=steps).values_list("item__pair_sha256")
    assert len(known) == 4 and len(dealt(rater)) == NEW - 4 and not dealt(rater) & {pair for (pair,) in known}


@pytest.mark.parametrize("way", ["vetted", "ordered"])
def test_account_that_judged_a_step_or_started_its_twins_can_read_the_record(way) -> None:
    maker = User.objects.create_user("maker")
    run_factory.create_evidence_pool(6)
    study = study_factory.create_open_study(**study_factory.build_evidence_protocol(6, ratings_per_item=1))
    step = Transition.objects.filter(number=2).first()
    assert step
    fields = {"vetted_by": maker, "vetted_at": timezone.now()} if way == "vetted" else {}
    twin = run_factory.create_twin(step, "subtle", **fields)
    if way == "ordered":
        Run.objects.filter(pk=twin.run_id).update(created_by=maker)
    readable = readable_elsewhere.find_readable_by(study, Rater(pk=0, study=study, user=maker))
    assert readable == set(
        ItemSource.objects.filter(item__study=study, review__episode=step.episode_id).values_list("item_id", flat=True)
    )


def test_identical_replicates_of_a_vetted_step_are_readable() -> None:
    vetter = User.objects.create_user("vetter")
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**only(NEW), ratings_per_item=1, raters=1)
    first = Transition.objects.get(number=3)
    again = run_factory.create_transition(run_factory.create_episode("zebrafish", replicate=2), 3)
    Transition.objects.filter(pk=again.pk).update(content_sha256=first.content_sha256, step=first.step)
    run_factory.create_twin(again, "subtle", vetted_by=vetter, vetted_at=timezone.now())
    readable = readable_elsewhere.find_readable_by(study, Rater(pk=0, study=study, user=vetter))
    assert readable == set(ItemSource.objects.filter(transition=first).values_list("item_id", flat=True))


def test_importer_can_read_imported_items_in_a_duplicate_of_the_study(owner) -> None:
    run_factory.create_pool(3)
    items = list(study_factory.create_open_study(**twins(3), slug="source", ratings_per_item=1).items.all())
    importer = User.objects.create_user("importer")
    document = study_factory.build_protocol(sources=[], name="First", slug="first", ratings_per_item=1)
    first = lifecycle.create_study(lifecycle.parse_protocol(document), by=owner)
    for number, item in enumerate(items):
        first.imported_items.create(
            key=str(number), record={}, payload=item.payload, payload_sha256=item.payload_sha256, label="x",
            perturbation="subtle", by=importer,
        )  # fmt: skip
    copy = lifecycle.duplicate_study(first, by=owner)
    assert set(copy.imported_items.values_list("by", flat=True)) == {importer.pk}
    lifecycle.open_study(copy, by=owner)
    copy.imported_items.update(by=None)  # as if somebody else had imported the same file again
    assert readable_elsewhere.can_read_every_item(copy, importer)


@pytest.mark.parametrize("right", ["is_staff", "is_superuser"])
@pytest.mark.parametrize("design", ["balanced", "pool"])
def test_new_staff_or_superuser_is_assigned_nothing_more(right, design) -> None:
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**only(NEW), ratings_per_item=1, raters=2, design=design)
    user = User.objects.create_user("later")
    rater = join(study.raters.get(label="R01"), user)
    setattr(user, right, True)
    user.save()
    assert next_item.find_next_assignment(rater) is None and check_of(study)["passed"] is True
    assert len(told(study)) == (design == "balanced")
    if design == "balanced":
        assert live(study) == NEW


def test_former_staff_can_read_what_existed_by_then(owner) -> None:
    run_factory.create_pool(NEW)
    study = study_factory.create_open_study(**twins(NEW), ratings_per_item=1, raters=2)
    user = User.objects.create_user("later")
    rater = join(study.raters.get(label="R01"), user)
    Assignment.objects.filter(rater=rater).update(opened_at=timezone.now())
    assert check_of(study)["passed"] is True
    user.is_staff = True
    user.save()
    assert check_of(study)["passed"] is False
    user.is_staff = False
    user.save()
    assert check_of(study)["passed"] is False
    assert user.rights_periods.get().ended_at is not None
    # They never saw episodes that were started later.
    Run.objects.update(created_at=timezone.now() + timedelta(hours=1))
    assert check_of(study)["passed"] is True
    Rater.objects.filter(pk=rater.pk).update(finished_at=timezone.now() - timedelta(days=1))
    Run.objects.update(created_at=timezone.now() - timedelta(days=2))
    assert check_of(study)["passed"] is True  # they were staff only after their last answer


def test_former_superuser_can_read_what_was_unblinded_by_then(finished, owner) -> None:
    user = User.objects.create_superuser("root")
    user.is_superuser = user.is_staff = False
    user.save()
    Run.objects.update(created_at=timezone.now() + timedelta(hours=1))  # nothing was readable in the laboratory by then
    later = study_factory.create_open_study(
        **only(NEW), slug="later", allow_unblinded=True, ratings_per_item=1, raters=1
    )
    rater = Rater(pk=0, study=later, user=user)
    assert len(readable_elsewhere.find_readable_by(later, rater)) == KNOWN
    Study.objects.filter(pk=finished.pk).update(unblinded_at=timezone.now() + timedelta(hours=1))
    assert readable_elsewhere.find_readable_by(later, rater) == set()


def test_saving_an_account_whose_rights_did_not_change_records_nothing(owner, django_assert_num_queries) -> None:
    assert [one.right for one in owner.rights_periods.all()] == ["staff"]
    with django_assert_num_queries(1):
        owner.save(update_fields=["last_login"])
    owner.save()
    assert owner.rights_periods.count() == 1


def test_role_given_after_the_last_answer_is_not_a_leak(finished, owner) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), User.objects.create_user("later"))
    Assignment.objects.filter(rater=rater).update(opened_at=timezone.now())
    Rater.objects.filter(pk=rater.pk).update(finished_at=timezone.now())
    access.add_member(finished, "later", "analyst", owner)
    assert check_of(study)["passed"] is True
    Rater.objects.filter(pk=rater.pk).update(finished_at=None)
    assert check_of(study)["passed"] is False


def test_revoked_role_makes_items_readable_because_it_is_in_the_table_of_role_changes(finished, analyst) -> None:
    finished.members.all().delete()
    finished.events.filter(kind="member").delete()
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), analyst)
    assert not dealt(rater) & known(finished)
    assert list(readable_elsewhere.list_unblinded_people(finished).exclude(is_staff=True)) == [analyst]


def test_items_readable_only_after_the_last_answer_do_not_count(owner, analyst) -> None:
    run_factory.create_pool(NEW)
    first = study_factory.create_open_study(**only(KNOWN), name="First", slug="first", ratings_per_item=1)
    access.add_member(first, analyst.username, "analyst", owner)
    second = study_factory.create_open_study(**only(NEW), ratings_per_item=1, raters=1)
    rater = join(second.raters.get(), analyst)
    Rater.objects.filter(pk=rater.pk).update(finished_at=timezone.now())
    study_factory.unblind_study(first, owner)
    assert readable_elsewhere.find_readable(second, list(second.raters.all())) == {}
    Rater.objects.filter(pk=rater.pk).update(finished_at=None)
    assert len(readable_elsewhere.find_readable_by(second, second.raters.get())) == KNOWN


def test_find_readable_takes_the_same_queries_for_any_number_of_raters_items_and_studies(
    finished, analyst, owner, django_assert_max_num_queries
) -> None:
    for number in range(3):
        more = study_factory.create_open_study(**only(KNOWN), name=f"More {number}", slug=f"more-{number}", allow_unblinded=True, ratings_per_item=1)  # fmt: skip
        study_factory.unblind_study(more, owner)
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=2, raters=8)
    for rater in study.raters.all():
        study_factory.fill_rater_place(study, rater.label)
    Rater.objects.filter(pk=study.raters.get(label="R01").pk).update(user=analyst)
    raters = list(study.raters.all())
    with django_assert_max_num_queries(10):
        found = readable_elsewhere.find_readable(study, raters)
    assert {rater: len(items) for rater, items in found.items()} == {raters[0].pk: KNOWN}


def test_new_study_excludes_items_of_unblinded_studies(finished) -> None:
    stock = pool.take_stock(lifecycle.parse_protocol(study_factory.build_protocol(**only(4))))
    assert (stock.lines[0].have, stock.lines[0].left_out, stock.left_out) == (NEW - KNOWN, KNOWN, KNOWN)
    study = study_factory.create_open_study(**only(4), ratings_per_item=1)
    assert not known(study) & known(finished)
    event = study_log_texts.get_event_text(study, "opened")
    assert event == f"4 items, 1 rater; {KNOWN} items of unblinded studies left out"


def test_new_study_excludes_versions_of_items_of_unblinded_studies(finished) -> None:
    study = study_factory.create_open_study(**twins(4), ratings_per_item=1)
    assert not known(study) & known(finished)


def test_opening_with_too_few_remaining_items_states_how_many_are_left_out(finished) -> None:
    with pytest.raises(PlanError, match=r"the pool holds 4: .*; 6 items left out, because they or versions of them are in an unblinded study"):  # fmt: skip
        study_factory.create_open_study(**only(5), ratings_per_item=1)
    assert (
        study_factory.create_open_study(
            **only(5), slug="allowed", allow_unblinded=True, ratings_per_item=1
        ).items.count()
        == 5
    )


def test_duplicate_excludes_imported_items_of_an_unblinded_study(owner) -> None:
    run_factory.create_pool(3)
    study = study_factory.create_open_study(**only(2), ratings_per_item=1)
    item = Item.objects.filter(study=study).first()
    assert item
    study_factory.unblind_study(study, owner)
    copy = lifecycle.create_study(
        lifecycle.parse_protocol(study_factory.build_protocol(sources=[], name="Copy", ratings_per_item=1))
    )
    copy.imported_items.create(
        key="1", record={}, payload=item.payload, payload_sha256=item.payload_sha256, label="x", perturbation="none"
    )
    with pytest.raises(PlanError, match="no item remains: 1 item left out"):
        lifecycle.open_study(copy)
    lifecycle.edit_draft(copy, lifecycle.parse_protocol({**copy.protocol, "allow_unblinded": True}))
    lifecycle.open_study(copy)
    assert copy.items.count() == 1


def test_running_study_refuses_items_of_unblinded_studies_unless_allowed(finished) -> None:
    protocol = lifecycle.parse_protocol(study_factory.build_protocol(**only(NEW), allow_unblinded=True))
    found = [one for one in pool.list_usable_candidates(protocol) if one.candidate.pair in known(finished)]
    strict = study_factory.create_open_study(**only(2), slug="strict", ratings_per_item=1)
    with pytest.raises(PlanError, match="6 items or versions of them are in an unblinded study"):
        running_raters.add_items(strict, found)
    allowing = study_factory.create_open_study(**twins(1), slug="allowing", allow_unblinded=True, ratings_per_item=1)
    running_raters.add_items(allowing, found)
    assert allowing.items.count() == 1 + KNOWN


def test_allow_unblinded_is_a_field_of_the_study_document_and_false_by_default() -> None:
    run_factory.create_pool(2)
    document = study_factory.build_protocol()
    assert lifecycle.parse_protocol(document).to_document()["allow_unblinded"] is False
    assert lifecycle.parse_protocol({**document, "allow_unblinded": True}).to_document()["allow_unblinded"] is True
    with pytest.raises(ProtocolError, match="allow_unblinded: is 'yes'; allowed: true or false"):
        lifecycle.parse_protocol({**document, "allow_unblinded": "yes"})


def test_log_states_one_total_of_released_items_for_several_raters(owner, analyst) -> None:
    run_factory.create_pool(NEW)
    first = study_factory.create_open_study(**only(NEW), name="First", slug="first", ratings_per_item=1)
    users = [analyst, User.objects.create_user("other")]
    study = study_factory.create_open_study(**only(NEW), ratings_per_item=1, raters=3)
    for rater, user in zip(study.raters.order_by("number"), users, strict=False):
        join(rater, user)
        access.add_member(first, user.username, "analyst", owner)
    study_factory.unblind_study(first, owner)
    assert len(told(study)) == 1 and "R0" not in told(study)[0]


def test_log_of_released_items_connects_no_label_with_a_name(finished, analyst) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    join(study.raters.get(label="R01"), analyst)
    events = StudyEvent.objects.filter(study=study, kind="taken back")
    assert events.count() == 1 and not events.exclude(by=None).exists()
    assert not any(word in told(study)[0] for word in (analyst.username, "R01", finished.name, finished.slug))


def check_of(study: Study) -> dict[str, Any]:
    """Return the audit's check of other studies, as in the certificate."""
    made = audit_runner.build_report(study, stored_items.check_other_studies(study))
    assert made["other_studies"] == made["checks"][0]["measured"]
    found: dict[str, Any] = made["checks"][0]
    return found


def test_audit_fails_if_a_rater_was_shown_an_item_readable_in_another_study(finished, owner) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), User.objects.create_user("later"))
    assert check_of(study)["passed"] is True
    shown = [row.pk for row in rater.assignments.order_by("position") if row.item.pair_sha256 in known(finished)][:2]
    Assignment.objects.filter(pk__in=shown).update(opened_at=timezone.now())
    access.add_member(finished, "later", "analyst", owner)
    mine = rater.assignments.filter(released_at__isnull=True).count()
    found = check_of(study)
    assert found["passed"] is False
    assert found["leaks"] == [
        {
            "where": "1 rater",
            "what": f"2 of {mine} items can be read by the same account elsewhere, with their source",
        }
    ]
    assert not any(word in str(found) for word in ("Finished", "later", "R01"))


def test_audit_page_shows_whether_any_rater_has_readable_items(finished, owner) -> None:
    study = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), User.objects.create_user("later"))
    boss = Client()
    boss.force_login(User.objects.create_superuser("boss"))

    def certified() -> str:
        audit_runner.store_report(study, audit_runner.build_report(study, stored_items.check_other_studies(study)))
        return boss.get(reverse("ratings:audit", args=[study.slug])).content.decode()

    assert "No rater was assigned an item that their account can see in another study" in certified()
    Assignment.objects.filter(rater=rater).update(opened_at=timezone.now())
    access.add_member(finished, "later", "analyst", owner)
    page = certified()
    assert (
        "Raters were assigned items that their accounts can see in another study" in page and "No rater was" not in page
    )


def test_items_of_episodes_in_an_unblinded_evidence_study_are_counted_and_not_excluded(owner, analyst) -> None:
    run_factory.create_evidence_pool(6)
    records = study_factory.create_open_study(
        **study_factory.build_evidence_protocol(4, slug="records", ratings_per_item=1)
    )
    access.add_member(records, analyst.username, "analyst", owner)
    study_factory.unblind_study(records, owner)
    stock = pool.take_stock(lifecycle.parse_protocol(study_factory.build_protocol(**only(12))))
    assert (stock.lines[0].have, stock.lines[0].shown, stock.shown, stock.left_out) == (12, 8, 8, 0)
    steps = study_factory.create_open_study(**only(12), ratings_per_item=1, raters=6)
    event = study_log_texts.get_event_text(steps, "opened")
    assert event == "12 items, 6 raters; 8 items of episodes that are part of unblinded studies"
    assert check_of(steps)["measured"] == {
        "items": 12,
        "items_in_unblinded_studies": 0,
        "items_of_episodes_in_unblinded_studies": 8,
        "allowed": False,
    }
    assert len(readable_elsewhere.find_readable_by(steps, Rater(pk=0, study=steps, user=analyst))) == 8


def test_certificate_states_number_and_permission_of_items_of_other_studies(finished) -> None:
    allowed = study_factory.create_open_study(**only(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    assert check_of(allowed)["measured"] == {
        "items": NEW,
        "items_in_unblinded_studies": KNOWN,
        "items_of_episodes_in_unblinded_studies": 0,
        "allowed": True,
    }
    left_out = study_factory.create_open_study(
        **only(NEW - KNOWN), name="Second", slug="second", ratings_per_item=1, raters=2
    )
    assert check_of(left_out)["measured"] == {
        "items": NEW - KNOWN,
        "items_in_unblinded_studies": 0,
        "items_of_episodes_in_unblinded_studies": 0,
        "allowed": False,
    }
    assert check_of(left_out)["looked_at"] == NEW - KNOWN


def test_analyst_who_joins_a_new_study_finds_none_of_its_items_in_the_results_they_can_read(finished, analyst) -> None:
    """A case that once occurred: half of the items were there with their planted error, and the audit passed."""
    study = study_factory.create_open_study(**twins(NEW), allow_unblinded=True, ratings_per_item=1, raters=2)
    rater = join(study.raters.get(label="R01"), analyst)
    client = Client()
    client.force_login(analyst)
    pages = {
        item: client.get(reverse("ratings:item", args=[finished.slug, item.code])) for item in finished.items.all()
    }
    legible = {item for item, page in pages.items() if page.status_code == 200 and "offline" in page.content.decode()}
    assert len(legible) == KNOWN
    assert not dealt(rater) & {item.pair_sha256 for item in legible}
    assert check_of(study)["passed"] is True
    # As if these items had been assigned to the rater.
    others = Assignment.objects.filter(rater=study.raters.get(label="R02"))
    others.update(rater=rater, position=F("position") + NEW)
    assert check_of(study)["passed"] is False
