"""The migration of sentences that earlier releases stored in a study's log to data."""

from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from typing import Any

import pytest
from django.apps.registry import Apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from ratings.models import MembershipChange, Study, StudyEvent, study_events
from ratings.models.study_events import Content
from ratings.studies import interim_analysis, readable_elsewhere
from tests.support import study_factory
from tests.support.event_examples import EXAMPLES, write_as_earlier_release

BEFORE = "0001_squashed"
sentences = import_module("ratings.migrations._study_event_sentences")
CUT = 300

EARLIER = [
    ("opened", "1 items, 2000 raters", study_events.Opened(items=1, raters=2000)),
    ("exported", "with sources", study_events.TableExported(blinded=False)),
    (
        "exported",
        f"blinded. Only cast: {'x' * CUT}"[:CUT],
        study_events.TableExported(blinded=True, filters_text=f"Only cast: {'x' * CUT}"[: CUT - len("blinded. ")]),
    ),
    (
        "items imported",
        f"2 items: a, {'b' * CUT}"[:CUT],
        study_events.ItemsImported(items=2, sources=("a", f"{'b' * CUT}"[: CUT - len("2 items: a, ")])),
    ),
    (
        "quarantine",
        f"released 0123456789ab: the word “model”; declared things in the laboratory: “gemini”, {'c' * CUT}"[:CUT],
        study_events.QuarantineDecided(
            decision="released",
            digest="0123456789ab",
            reason="the word “model”",
            things=(("gemini", "c" * (CUT - 86)),),
        ),
    ),
]
UNREADABLE = [
    ("created", "by hand"),
    ("opened", ""),
    ("opened", "many items, 3 raters"),
    ("opened", "3 items, 2 raters; and more"),
    ("guide", "version two"),
    ("reopened", "soon"),
    ("withdrawn", "R01, ratings kept"),
    ("items imported", "all removed"),
    ("looked", "at some: 1 of 2 sources shown"),
    ("exported", "archive, blinded"),
    ("exported", "elsewhere"),
    ("machine", "M1 rated"),
    ("taken back", "everything"),
    ("gossip", "heard"),
]


LATER = ("public page",)  # kinds that no release stored as sentences


@pytest.mark.parametrize(
    ("kind", "sentence", "content"),
    [
        *(
            (content.kind, write_as_earlier_release(words), content)
            for content, words in EXAMPLES
            if content.kind not in LATER
        ),
        *EARLIER,
    ],
)
def test_migration_parses_every_known_log_sentence(kind: str, sentence: str, content: Content) -> None:
    assert study_events.parse_content(kind, sentences.read_sentence(kind, sentence)) == content


@pytest.mark.parametrize(("kind", "sentence"), UNREADABLE)
def test_migration_keeps_unknown_log_sentences_without_guessing(kind: str, sentence: str) -> None:
    assert sentences.read_sentence(kind, sentence) is None


NUMBERS = {
    "ann": 3,
    "x (account 3) is study admin": 7,
    "y (account 3)": 8,
    "has no role any more": 9,
    "two words": 10,
    "erased-0123": 11,
}


@pytest.mark.parametrize(
    ("sentence", "change"),
    [
        ("ann is study admin", (3, "admin", True)),
        ("ann is analyst", (3, "analyst", True)),
        ("ann has no role any more", (3, "", False)),
        ("two words is analyst", (10, "analyst", True)),
        ("ann (account 3) is analyst", (3, "analyst", True)),
        ("ann of old (account 3) has no role any more", (3, "", False)),
        ("erased (account 11) is analyst", (11, "analyst", True)),
        ("gone (account 99) is analyst", (99, "analyst", True)),
        ("x (account 3) is study admin (account 7) is analyst", (7, "analyst", True)),
        ("x (account 3) is study admin (account 7) has no role any more", (7, "", False)),
        ("x (account 3) is study admin has no role any more", (7, "", False)),
        ("y (account 3) (account 8) is study admin", (8, "admin", True)),
        ("has no role any more is analyst", (9, "analyst", True)),
        # Of account 3, or of the account 8 whose name looks like that: a guess would make one of them an insider.
        ("y (account 3) is analyst", None),
        ("nobody is analyst", None),
        ("ann is owner", None),
        ("ann (account 3) is study admin and more", None),
        ("ann (account 0) is analyst", None),
        ("", None),
    ],
)
def test_migration_links_a_logged_sentence_about_a_member_to_their_account(
    sentence: str, change: tuple[int, str, bool] | None
) -> None:
    assert sentences.read_member(sentence, NUMBERS) == change


@pytest.fixture
def earlier(transactional_db: None) -> Iterator[Apps]:
    """The models of the previous release; afterwards the current tables are restored, without rows in the log."""
    call_command("migrate", "ratings", BEFORE, verbosity=0)
    try:
        yield MigrationExecutor(connection).loader.project_state([("ratings", BEFORE)]).apps
    finally:
        call_command("migrate", "ratings", verbosity=0)


def upgrade() -> None:
    call_command("migrate", "ratings", verbosity=0)


@pytest.mark.both_databases
def test_migration_converts_the_log_to_data_and_role_changes(earlier: Apps, capfd: pytest.CaptureFixture[str]) -> None:
    names = ("ann", "bea", "victim", "crafted", "boss")
    ann, bea, victim, crafted, boss = (User.objects.create_user(name) for name in names)
    User.objects.filter(pk=crafted.pk).update(username=f"x (account {victim.pk}) is study admin")
    study = earlier.get_model("ratings", "Study").objects.create(
        slug="old", name="Old", kind="transition_plausibility", question="?", protocol=protocol(), seed=1,
        ratings_per_item=1, guide="",
    )  # fmt: skip
    events = earlier.get_model("ratings", "StudyEvent").objects

    def log(kind: str, detail: str, by: int | None = None) -> datetime:
        return events.create(study=study, kind=kind, detail=detail, by_id=by, at=timezone.now()).at

    at = log("member", "ann is study admin", boss.pk)
    log("member", "ann has no role any more", boss.pk)
    log("member", f"bea (account {bea.pk}) is analyst")
    log("member", "ghost is analyst")
    log("member", "gone (account 987654) is analyst")
    log("member", f"x (account {victim.pk}) is study admin is analyst")
    log("member", f"x (account {victim.pk}) is study admin (account {crafted.pk}) has no role any more")
    log("opened", "2,000 items, 3 raters")
    log("opened", "many")
    log("items imported", "all 3 removed")
    log("closed", "")
    log("member", "somebody else entirely")

    upgrade()

    rows = list(StudyEvent.objects.order_by("pk").values_list("kind", "data"))
    assert rows == [
        ("member", {"account": ann.pk, "role": "admin", "granted": True}),
        ("member", {"account": ann.pk, "role": "admin", "granted": False}),
        ("member", {"account": bea.pk, "role": "analyst", "granted": True}),
        ("member", {"text": "ghost is analyst"}),
        ("member", {"account": 987654, "role": "analyst", "granted": True}),
        ("member", {"account": crafted.pk, "role": "analyst", "granted": True}),
        ("member", {"account": crafted.pk, "role": "analyst", "granted": False}),
        ("opened", {"items": 2000, "raters": 3, "left_out": 0, "shown": 0, "identical_cases": 0, "cases": 0}),
        ("opened", {"text": "many"}),
        ("items imported", {"removed": 3}),
        ("closed", {}),
        ("member", {"text": "somebody else entirely"}),
    ]
    changes = MembershipChange.objects.order_by("pk").values_list("user", "role", "granted", "by")
    assert list(changes) == [
        (ann.pk, "admin", True, boss.pk), (ann.pk, "admin", False, boss.pk), (bea.pk, "analyst", True, None),
        (None, "analyst", True, None), (crafted.pk, "analyst", True, None), (crafted.pk, "analyst", False, None),
    ]  # fmt: skip
    assert MembershipChange.objects.earliest("pk").at == at
    said = capfd.readouterr().err
    assert "old: 2 of kind 'member' could not be read" in said and "old: 1 of kind 'opened' could not be read" in said

    now = Study.objects.get()
    assert [readable_elsewhere.had_role(now, user) for user in (ann, bea, victim, crafted, boss)] == [
        True,
        True,
        False,
        True,
        True,
    ]
    assert readable_elsewhere.has_managed(now, ann) and not readable_elsewhere.has_managed(now, bea)
    ghost = User.objects.create_user("ghost")
    assert not readable_elsewhere.had_role(now, ghost) and ghost not in readable_elsewhere.list_unblinded_people(now)
    assert interim_analysis._count_planned_ratings(now) == 2000


@pytest.mark.both_databases
def test_migration_converts_a_long_log_in_batches(earlier: Apps) -> None:
    migration = import_module("ratings.migrations.0002_study_event_data")
    study = earlier.get_model("ratings", "Study").objects.create(
        slug="old", name="Old", kind="transition_plausibility", question="?", protocol=protocol(), seed=1,
        ratings_per_item=1, guide="",
    )  # fmt: skip
    event = earlier.get_model("ratings", "StudyEvent")
    number = 2 * migration.PIECE + 1
    event.objects.bulk_create(event(study=study, kind="reminded", detail=f"{n} raters") for n in range(number))
    upgrade()
    assert [row["raters"] for row in StudyEvent.objects.order_by("pk").values_list("data", flat=True)] == list(
        range(number)
    )


def protocol() -> dict[str, Any]:
    return {**study_factory.build_protocol(ratings_per_item=1), "slug": "old", "question": "?", "practice": 0}
