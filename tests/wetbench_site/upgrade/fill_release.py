"""Fill the database of a release with data; make_release.py runs this inside an export of that release.

It uses that release's own code and test helpers, so it is not imported by any test. Names in it are those of then.
"""

import io
import json
import os
import sys
import uuid
from tempfile import TemporaryDirectory
from typing import Any

import django

sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests")]
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wetbench_site.settings")
django.setup()

import factories  # noqa: E402
import verified_site  # noqa: E402
from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402
from ratings.archive import orders  # noqa: E402

from ratings import (  # noqa: E402
    answering,
    auditing,
    erasing,
    exports,
    imports,
    interim,
    inviting,
    joining,
    mailing,
    members,
    pool,
    posting,
    protocols,
    quarantine,
    rating_imports,
    seating,
    serving,
    simulated,
    studies,
)
from ratings.api import tokens  # noqa: E402
from ratings.models import Rater, Study, StudyEvent  # noqa: E402
from simulation.models import Transition  # noqa: E402

OWNER, ANALYST, ADMIN, LEFT, ERASED = "owner", "analyst", "second-admin", "old-member", "erased-member"
# Sentences of earlier releases, which this release still reads.
OLD_SENTENCES = (
    ("member", f"{LEFT} is study admin"),
    ("member", f"{LEFT} has no role any more"),
    ("member", f"{ADMIN} is analyst"),
    ("member", "nobody-of-this-name is analyst"),
    ("looked", "interim look: 1 of 3 sources with 10 ratings or more"),
    ("exported", "blinded"),
    ("exported", "with sources"),
)


def main() -> None:
    """Write every table of the release by its own code, and every kind of study event."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    settings.TALLY_SECONDS = 0
    verified_site.furnish()
    people = {name: User.objects.create_user(name, f"{name}@example.org") for name in (ANALYST, ADMIN, LEFT, ERASED)}
    User.objects.filter(username=ADMIN).update(is_staff=True)
    owner = User.objects.create_user(OWNER, "owner@example.org", is_staff=True)
    User.objects.create_superuser("root", "root@example.org")
    fill_log(owner, people)
    run_study_with_imports(owner)
    leave_open_study(owner)
    unblind_study_and_take_items_back(owner)
    missing = {kind for kind, _ in StudyEvent.KINDS} - set(StudyEvent.objects.values_list("kind", flat=True))
    assert not missing, f"no event of the kinds {sorted(missing)}"


def make_draft(slug: str, owner: User, count: int = 2, **changes: Any) -> Study:
    """Create a draft over the small laboratory's pool."""
    sources = [{"cast": "offline", "perturbation": wrong, "count": count} for wrong in ("none", "obvious", "subtle")]
    document = factories.protocol(**{"sources": sources, "name": slug.title(), "slug": slug, **changes})
    return studies.create_study(protocols.stored(document), owner)


def fill_log(owner: User, people: dict[str, User]) -> None:
    """Take one study through its whole life: members, seats, letters, pauses, exports, an audit and an interim look."""
    study = make_draft("whole-life", owner, count=4)
    studies.edit_draft(study, protocols.stored({**study.protocol, "guide": "Look closely."}), owner, "guide")
    studies.duplicate(study, owner)
    study.refresh_from_db()
    studies.open_study(study, 4, owner)
    study.refresh_from_db()
    studies.revise_guide(study, "Look twice.", owner)
    for name, role in ((ANALYST, "analyst"), (ADMIN, "admin"), (LEFT, "analyst"), (ERASED, "analyst")):
        members.add(study, name, role, owner)
    members.add(study, LEFT, "admin" if people[LEFT].is_staff else "analyst", owner)
    members.remove(study, study.members.get(user=people[LEFT]), owner)
    for kind, sentence in OLD_SENTENCES:
        StudyEvent.objects.create(
            study=study, kind=kind, detail=sentence, by=people[ANALYST] if kind == "looked" else owner
        )
    seats = list(study.raters.order_by("number"))
    inviting.invite(seats[0], owner)
    inviting.revoke(seats[0], owner)
    first = join(seats[0], User.objects.create_user("first-rater", "first@example.org"))
    second = join(seats[1], User.objects.create_user("second-rater", "second@example.org"))
    inviting.invite(Rater.objects.get(pk=second.pk), owner)
    address = mailing.address_of(site="https://bench.example.org")
    posting.invite_all(study, "third@example.org", owner, address)
    posting.remind(study, owner, address)
    factories.rate_all(first)
    rate(second, 2)
    interim.look(study, people[ANALYST])
    seating.withdraw(second, owner)
    seating.add_seats(study, 2, owner)
    add_items(study, owner)
    simulated.simulate_raters(study, 1, 0.8, 0.6, seed=5, by=owner)
    erasing.erase(first.user, owner)
    erasing.erase(people[ERASED], owner)
    studies.pause(study, owner)
    studies.resume(study, owner)
    auditing.run(study, owner)
    list(exports.csv_lines(study, True, owner))
    with TemporaryDirectory() as folder:
        call_command("export_study", study.slug, "--blinded", f"{folder}/study.zip", stdout=io.StringIO())
        call_command("export_study", study.slug, "--blinded", f"{folder}/study", stdout=io.StringIO())
    orders.log(study, True, owner, "ab" * 32)
    read_by_token(study, owner)
    call_command("rate_with_model", study.slug, "--cast", "checker", "--by", OWNER, stdout=io.StringIO())
    studies.close(study, owner)
    studies.reopen(study, owner)


def join(seat: Rater, user: User) -> Rater:
    """Accept an invitation to this seat as this account, and finish what comes before the first item."""
    invitation = joining.find(inviting.invite(seat))
    assert invitation is not None
    taken = joining.accept(invitation, user, joining.Joining())
    version = taken.study.guide_version
    Rater.objects.filter(pk=taken.pk).update(started_at=timezone.now(), guide_seen=version, practised_at=timezone.now())
    return Rater.objects.select_related("study", "user").get(pk=taken.pk)


def rate(seat: Rater, count: int) -> None:
    for _ in range(count):
        place = serving.next_assignment(seat)
        assert place is not None
        serving.mark_opened(place)
        answering.rate(place, True, 3, uuid.uuid4())


def add_items(study: Study, owner: User) -> None:
    """Add two items of the pool that the study does not have."""
    known = set(study.items.values_list("payload_sha256", flat=True))
    sources = [{"cast": "offline", "perturbation": "none", "count": 6}]
    found = pool.find(studies.read_protocol({**study.protocol, "sources": sources}))
    seating.add_items(study, [one for one in found if one.candidate.content not in known][:2], owner)


def read_by_token(study: Study, owner: User) -> None:
    """Read the ratings over the API, which logs an export."""

    token = tokens.create_token(owner, "notebook", ["studies:read", "ratings:read"])[1]
    headers = {"authorization": f"Bearer {token}", "host": "localhost"}
    answer = Client().get(f"/api/v1/studies/{study.slug}/ratings", headers=headers)
    assert answer.status_code == 200, answer.content


def run_study_with_imports(owner: User) -> None:
    """Import items and ratings, decide a quarantined item, and remove imported items of another draft."""
    study = make_draft("with-imports", owner, sources=[])
    imports.take(study, lines(imported_item(1), imported_item(2), imported_item(3)), owner)
    held = pool.look(protocols.stored(study.protocol), study).held
    assert held == []
    studies.open_study(study, 2, owner)
    table = "item,rater,verdict,confidence\r\nitem-1,Dr A,plausible,4\r\nitem-2,Dr B,0,1\r\n"
    rating_imports.take(study, io.BytesIO(table.encode()), owner)
    draft = make_draft("imports-removed", owner, sources=[])
    imports.take(draft, lines(imported_item(4)), owner)
    imports.remove_all(draft, owner)


def imported_item(number: int) -> dict[str, Any]:
    sample = {
        "barcode": "MAT-AAAAAAAA", "name": "Cells", "properties": {"volume": f"{number + 10} mL"},
        "available_for_use": "available_for_further_use", "environmental_condition": "room_temp",
    }  # fmt: skip
    after = {**sample, "replaces": sample["barcode"], "properties": {"volume": f"{number} mL"}}
    del after["barcode"]
    outcome = {
        "new_materials": [after],
        "new_observations": [{"description": "MAT-AAAAAAAA is cloudy", "measurement_type": "visual", "value": 1.5}],
        "reasoning": "", "success": True, "failure_reason": "",
    }  # fmt: skip
    action = {"name": "Transfer", "parameters": {"volume": "1 mL", "source": "MAT-AAAAAAAA"}}
    return {
        "id": f"item-{number}", "source": "elsewhere", "input_materials": [sample], "action": action,
        "outcome": outcome, "truth": "correct",
    }  # fmt: skip


def lines(*rows: dict[str, Any]) -> io.BytesIO:
    return io.BytesIO("\n".join(map(json.dumps, rows)).encode())


def unblind_study_and_take_items_back(owner: User) -> None:
    """Unblind a study beside a running one whose rater then can read versions of their items."""
    own = [{"cast": "offline", "perturbation": "none", "count": 4}]
    reader = User.objects.create_user("reader", "reader@example.org")
    finished = make_draft("finished", owner, sources=own, ratings_per_item=1)
    decide_quarantine(finished, owner)
    studies.open_study(finished, 1, owner)
    members.add(finished, reader.username, "analyst", owner)
    running = make_draft("beside", owner, sources=[{**own[0], "count": 6}], ratings_per_item=1)
    studies.open_study(running, 2, owner)
    join(running.raters.order_by("number")[0], reader)
    factories.rate_all(factories.seat(finished))
    studies.close_and_unblind(finished, owner)


def decide_quarantine(study: Study, owner: User) -> None:
    """Hold two items for what they show, release one and drop the other; the steps are as they were afterwards."""
    rows = list(Transition.objects.filter(episode__cast="offline", accepted=True).order_by("pk")[:2])
    before = [json.dumps(row.step) for row in rows]
    for row in rows:
        row.step["outcome"]["new_observations"] = [
            {"description": f"deliberately wrong {row.number}", "measurement_type": "visual", "value": ""}
        ]
        row.save()
    first, second = pool.look(protocols.stored(study.protocol), study).held[:2]
    quarantine.decide(study, first, "released", owner)
    quarantine.decide(study, second, "dropped", owner)
    for row, step in zip(rows, before, strict=True):
        row.step = json.loads(step)
        row.save()


def leave_open_study(owner: User) -> None:
    """Leave a study open in which a rater has rated one item and is due the next."""
    study = make_draft("still-open", owner)
    studies.open_study(study, 2, owner)
    rate(join(study.raters.order_by("number")[0], User.objects.create_user("open-rater", "open@example.org")), 1)


if __name__ == "__main__":
    main()
