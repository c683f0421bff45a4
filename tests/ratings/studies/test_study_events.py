"""Events of a study are data: their content, their sentences, and that no decision depends on the sentences."""

import io
import json
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ratings.exchange.archive import archive_requests, study_files
from ratings.exchange.imports import import_jobs, item_imports
from ratings.models import MembershipChange, Study, StudyEvent
from ratings.models import study_events as events
from ratings.models.study_events import Content, ContentError, LegacyText
from ratings.raters import erasure
from ratings.results import study_log
from ratings.studies import access, interim_analysis, lifecycle, readable_elsewhere
from tests.support import run_factory, study_factory, study_log_texts
from tests.support.api_client import create_api_program
from tests.support.event_examples import EXAMPLES


def make_draft(**changes: object) -> Study:
    return lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(**changes)))


def name_example(example: object) -> str:
    return type(example).__name__ if isinstance(example, Content) else ""


# Content


@pytest.mark.parametrize(("content", "words"), EXAMPLES, ids=name_example)
def test_event_content_is_unchanged_after_storing_and_has_the_expected_sentence(content: Content, words: str) -> None:
    stored = json.loads(json.dumps(content.to_dict()))
    assert events.load_content(content.kind, stored) == content
    assert study_log.describe_content(content) == words


def test_every_event_class_has_an_example_and_every_event_kind_has_a_class() -> None:
    assert {type(content) for content, _ in EXAMPLES} | {events.MemberChanged} == set(events.CLASSES)
    assert set(events.KINDS) == {kind for kind, _ in StudyEvent.KINDS}


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("opened", {"items": 3}, "raters"),
        ("opened", {"items": "3", "raters": 1}, "valid integer"),
        ("opened", {"items": True, "raters": 1}, "valid integer"),
        ("opened", {"items": -1, "raters": 1}, "greater than or equal to 0"),
        ("opened", {"items": 3, "raters": 1, "note": "x"}, "Extra inputs"),
        ("created", {"text": "made by hand"}, "Extra inputs"),
        ("simulated", {"raters": [1], "seed": 1}, "valid string"),
        ("member", {"account": 0, "role": "admin", "granted": True}, "greater than or equal to 1"),
        ("member", {"account": 3, "role": "owner", "granted": True}, "admin"),
        ("exported", {"blinded": 1}, "valid boolean"),
        ("gossip", {}, "not a kind of study event"),
    ],
)
def test_event_with_an_unknown_field_or_a_wrong_type_is_not_stored(
    db: None, kind: str, data: dict[str, object], message: str
) -> None:
    study = make_draft()
    before = study.events.count()
    with pytest.raises(ContentError, match=message):
        StudyEvent.objects.create(study=study, kind=kind, data=data)
    assert study.events.count() == before


def test_event_text_of_an_early_release_is_shown_unchanged() -> None:
    assert events.load_content("opened", {"text": "<b>2 things</b>"}) == LegacyText(text="<b>2 things</b>")
    assert study_log.describe_event(LegacyText(text="<b>2 things</b>"), {}) == "<b>2 things</b>"
    assert study_log.title_event("member", LegacyText(text="x is analyst")) == "member"


def test_event_filters_of_an_exported_table_are_stored_as_values_and_shown_in_words() -> None:
    content = events.TableExported(blinded=False, filters={"error": "none"})
    assert study_log.describe_content(content) == "with sources. Only planted error: no planted error"


# Members


@pytest.fixture
def owner(db: None) -> User:
    return User.objects.create_user("owner", is_staff=True)


@pytest.fixture
def study(owner: User) -> Study:
    """Twenty originals and twenty subtle twins by one source, one rating each."""
    run_factory.create_pool(40)
    sources = [{"cast": "offline", "perturbation": kind, "count": 20} for kind in ("none", "subtle")]
    return study_factory.create_open_study(sources=sources, ratings_per_item=1, raters=1)


def test_log_shows_members_by_the_name_they_have_now(study: Study, owner: User, client: Client) -> None:
    ann = User.objects.create_user("ann")
    access.remove_member(study, access.add_member(study, "ann", "analyst", owner), owner)
    User.objects.filter(pk=ann.pk).update(username="anna")
    shown = [f"anna (account {ann.pk}) is analyst", f"anna (account {ann.pk}) no longer has a role"]
    assert study_log_texts.list_event_texts(study, "member") == shown
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(reverse("ratings:study_log", args=[study.slug])).content.decode()
    assert f'Role granted by owner <span class="muted">({shown[0]})</span>' in page
    assert f'Role removed by owner <span class="muted">({shown[1]})</span>' in page
    User.objects.filter(pk=ann.pk).delete()
    assert study_log_texts.list_event_texts(study, "member")[0] == f"deleted (account {ann.pk}) is analyst"
    assert list(study.membership_changes.values_list("user", "role")) == [(None, "analyst")] * 2


def test_log_loads_the_names_of_all_members_in_one_query(study: Study, owner: User) -> None:
    counts = []
    for number in range(6):
        User.objects.create_user(f"member-{number}")
        access.add_member(study, f"member-{number}", "analyst", owner)
        with CaptureQueriesContext(connection) as asked:
            study_log.describe_events(study.events.select_related("by"))
        counts.append(len(asked))
    assert set(counts) == {2}


def test_admin_site_shows_the_log_in_words_with_the_same_queries_for_any_number_of_members(
    study: Study, owner: User, client: Client
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    address, counts = reverse("admin:ratings_studyevent_changelist"), []
    for number in range(4):
        User.objects.create_user(f"member-{number}")
        access.add_member(study, f"member-{number}", "analyst", owner)
        with CaptureQueriesContext(connection) as asked:
            page = client.get(address).content.decode()
        counts.append(len(asked))
        assert f">{study_log_texts.list_event_texts(study, 'member')[-1]}<" in page and ">40 items, 1 rater<" in page
    assert len(set(counts[1:])) == 1, counts


def test_erasure_leaves_no_name_in_events_and_role_changes(study: Study, owner: User) -> None:
    ann = User.objects.create_user("ann.byron", email="ann@example.org")
    access.add_member(study, "ann.byron", "analyst", owner)
    lifecycle.log_event(study, events.ApiExported(blinded=True, token="laptop of ann.byron"), ann)
    StudyEvent.objects.filter(pk=study.events.create(kind="created").pk).update(
        kind="member", data={"text": "ann.byron was let in; so was joann.byron"}
    )
    access.remove_member(study, study.members.get(user=ann), owner)

    erasure.erase_person(ann)

    rows = [*StudyEvent.objects.values_list("kind", "data"), *MembershipChange.objects.values_list("role", "granted")]
    assert "ann.byron" not in str(rows).replace("joann.byron", "")
    assert study_log_texts.list_event_texts(study, "member") == [
        f"erased (account {ann.pk}) is analyst",
        "erased was let in; so was joann.byron",
        f"erased (account {ann.pk}) no longer has a role",
    ]
    assert study_log_texts.list_event_texts(study, "exported") == ["blinded, by API token erased"]
    assert readable_elsewhere.had_role(study, ann) and ann in readable_elsewhere.list_unblinded_people(study)


def test_find_insiders_takes_the_same_queries_for_one_and_many_studies(owner: User) -> None:
    run_factory.create_pool(8)
    found, counts = [], []
    for number in range(4):
        one = make_draft(name=f"Study {number}", slug=f"study-{number}")
        User.objects.create_user(f"analyst-{number}")
        for _ in range(3):
            access.remove_member(one, access.add_member(one, f"analyst-{number}", "analyst", owner), owner)
        found.append(one.pk)
        accounts = list(User.objects.values_list("pk", flat=True))
        with CaptureQueriesContext(connection) as asked:
            pairs = {(one, account) for one, account, _ in readable_elsewhere.find_unblinded_people(found, accounts)}
        counts.append(len(asked))
    assert set(counts) == {3}
    assert len(pairs) == 4 + 4  # in each study an analyst, and the owner who gave the role


def test_deleting_a_draft_deletes_its_events_and_role_changes(owner: User) -> None:
    User.objects.create_user("ann")
    draft = make_draft()
    access.add_member(draft, "ann", "analyst", owner)
    lifecycle.delete_draft(draft)
    assert not StudyEvent.objects.exists() and not MembershipChange.objects.exists()


def test_archive_excludes_event_sentences_that_could_not_be_converted(study: Study) -> None:
    row = study.events.create(kind="reminded", data={"raters": 1})
    StudyEvent.objects.filter(pk=row.pk).update(kind="items imported", data={"text": "2 things: gpt-9"})
    for blinded in (True, False):
        details = [line[-1] for line in study_files._iter_event_rows(study, blinded) if line[2] == "items imported"]
        assert details == [""]


# No decision depends on sentences

CRAFTED = "x (account {number}) is study admin"


def test_user_name_that_looks_like_a_log_sentence_gives_nobody_a_role_or_history(study: Study, owner: User) -> None:
    victim = User.objects.create_user("victim", is_staff=True)
    crafted = User.objects.create_user(CRAFTED.format(number=victim.pk))
    access.add_member(study, crafted.username, "analyst", owner)
    assert not readable_elsewhere.had_role(study, victim) and victim not in readable_elsewhere.list_unblinded_people(
        study
    )
    assert not readable_elsewhere.has_managed(study, crafted) and readable_elsewhere.had_role(study, crafted)
    pairs = {account for _, account, _ in readable_elsewhere.find_unblinded_people([study.pk], [victim.pk, crafted.pk])}
    assert pairs == {crafted.pk}
    access.add_member(study, "victim", "analyst", owner)
    assert interim_analysis.explain_refusal(study, victim) == ""
    erasure.erase_person(crafted)
    assert study_log_texts.list_event_texts(study, "member")[0] == f"erased (account {crafted.pk}) is analyst"
    assert f"victim (account {victim.pk}) is analyst" in study_log_texts.list_event_texts(study, "member")


def test_token_name_that_looks_like_an_export_sentence_suppresses_no_export_event(study: Study, owner: User) -> None:
    digest = "ab" * 32
    lifecycle.log_event(study, events.ApiExported(blinded=True, token=f"x SHA-256 {digest}"), owner)
    job = import_jobs.Job(params={"variant": archive_requests.BLINDED})
    archive_requests.log_download(study, job, owner, digest)
    archive_requests.log_download(study, job, owner, digest)
    assert study_log_texts.list_event_texts(study, "exported")[1:] == [f"archive, blinded, SHA-256 {digest}"]


@pytest.fixture(params=["the words of today", "words of another language"])
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the test twice, the second time with every sentence of the log replaced."""
    if request.param == "words of another language":
        monkeypatch.setattr(study_log, "describe_event", lambda content, names: "(account 1) is study admin")
        monkeypatch.setattr(study_log, "describe_content", lambda content: "all 9 removed: SHA-256 x")
        monkeypatch.setattr(study_log, "title_event", lambda kind, content: "exported")
    return request.param


def test_log_sentences_can_be_translated_without_changing_what_the_program_decides(
    language: str, owner: User, client: Client
) -> None:
    run_factory.create_pool(40)
    sources = [{"cast": "offline", "perturbation": kind, "count": 20} for kind in ("none", "subtle")]
    draft = make_draft(sources=sources, ratings_per_item=1, raters=1)
    checked = import_jobs.request_check(import_jobs.ITEMS_KIND, draft, io.BytesIO(b"{}\n"), "items.jsonl", owner)
    assert import_jobs.request_import(checked, draft, owner).params["removals"] == 0
    item_imports.remove_all_items(draft, owner)
    assert import_jobs.request_import(checked, draft, owner).params["removals"] == 1
    lifecycle.open_study(draft, by=owner)
    study = Study.objects.get(pk=draft.pk)
    assert interim_analysis._count_planned_ratings(study) == 40

    ada, ben, carl = (User.objects.create_user(name) for name in ("ada", "ben", "carl"))
    User.objects.filter(pk=ben.pk).update(is_staff=True)
    access.add_member(study, "ada", "analyst", owner)
    access.add_member(study, "ben", "admin", owner)
    access.add_member(study, "ben", "analyst", owner)
    assert (readable_elsewhere.had_role(study, ada), readable_elsewhere.has_managed(study, ada)) == (True, False)
    assert readable_elsewhere.has_managed(study, ben) and not readable_elsewhere.had_role(study, carl)
    assert set(readable_elsewhere.list_unblinded_people(study)) == {owner, ada, ben}
    assert interim_analysis.explain_refusal(
        study, ada
    ) == "" and "have managed this study" in interim_analysis.explain_refusal(study, ben)
    interim_analysis.take_interim_analysis(study, ada)
    assert readable_elsewhere.took_interim_analysis(study, ada) and not readable_elsewhere.took_interim_analysis(
        study, ben
    )

    assert exports_logged(study, ada) == 1  # the second and third request of the hour are the same copy
    job, digest = import_jobs.Job(params={"variant": archive_requests.BLINDED}), "ef" * 32
    for _ in range(2):
        archive_requests.log_download(study, job, owner, digest)
    assert study.events.filter(kind="exported", by=owner).count() == 1

    client.force_login(User.objects.create_superuser("root"))
    page = client.get(reverse("ratings:study_log", args=[study.slug])).content.decode()
    assert ("40 items, 1 rater" in page) == (language == "the words of today")
    access.remove_member(study, study.members.get(user=ada), owner)
    erasure.erase_person(ada)
    assert readable_elsewhere.had_role(study, ada) and "ada" not in str(
        list(study.events.values_list("data", flat=True))
    )


def exports_logged(study: Study, user: User) -> int:
    """Return how many events three requests of the API for the ratings of a study add to its log."""
    reader = create_api_program(user)
    for _ in range(3):
        assert reader.send_request(f"/studies/{study.slug}/ratings").status_code == 200
    return study.events.filter(kind="exported", by=user).count()
