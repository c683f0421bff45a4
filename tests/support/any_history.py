"""A study to which anything happens in any order, through the pages of raters and admins, compared with answers recorded by the test."""

import io
import random
import uuid
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from django.db import connection
from django.db.models import F
from django.test import Client

from ratings.exchange import exports
from ratings.exchange.imports import rating_imports
from ratings.models import Assignment, Rater, Rating, RatingEvent, Study
from ratings.rating import answering, serving
from ratings.studies import lifecycle
from ratings.studies.pool import pool
from ratings.studies.progress import reports, stopping
from ratings.studies.seats import seating
from tests.support import study_factory
from tests.support.steps import Away

SAVED = 303


class Said(NamedTuple):
    verdict: bool | None
    confidence: int | None
    note: str

    def form(self) -> dict[str, str]:
        if self.verdict is None:
            return {"cannot_judge": "on", "note": self.note}
        return {"verdict": "yes" if self.verdict else "no", "confidence": str(self.confidence), "note": self.note}


class Sent(NamedTuple):
    """A form as a browser sent it."""

    seat: Rater
    code: uuid.UUID
    said: Said
    submission: uuid.UUID
    revision: int

    def values(self) -> dict[str, str]:
        return {**self.said.form(), "submission_id": str(self.submission), "revision": str(self.revision)}


@dataclass
class History:
    """The test's own record of a study.

    `ledger` has the answers to each assignment that the site confirmed as saved, revision by revision. The other fields remember
    which pages raters have open, what they sent, and which item they met at which position.
    """

    study: Study
    rng: random.Random
    clients: dict[int, Client] = field(default_factory=dict)
    ledger: dict[uuid.UUID, list[Said]] = field(default_factory=lambda: defaultdict(list))
    accepted: dict[uuid.UUID, Sent] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    screens: list[tuple[Rater, uuid.UUID]] = field(default_factory=list)
    met: dict[uuid.UUID, tuple[int, int, int, int]] = field(default_factory=dict)
    imported: int = 0

    # ------------------------------------------------------------------ actions

    def act(self, name: str, chance: int) -> None:
        """Run the method of this name, with its choices drawn from the seed `chance`."""
        self.rng = random.Random(chance)
        getattr(self, name)()
        self.study.refresh_from_db()

    def show_next_item(self) -> None:
        """Open the next item of a rater. The page stays open, in a tab of its own."""
        if (rater := self._somebody()) and (code := self._come(rater)):
            self._meet(rater, code)

    def answer_open_page(self) -> None:
        """Answer any page that was ever shown: most often the newest."""
        if not self.screens or self.rng.random() < 0.5:
            self.show_next_item()
        if self.screens:
            rater, code = self.screens[-1] if self.rng.random() < 0.7 else self.rng.choice(self.screens)
            self.send(Sent(rater, code, self._words(), uuid.uuid4(), 0))

    def correct_answer(self) -> None:
        """Correct any answer, starting from its current revision, whether or not that is allowed."""
        if self.ledger:
            before = self.rng.choice(list(self.accepted.values()))
            self.send(
                before._replace(said=self._words(), submission=uuid.uuid4(), revision=len(self.ledger[before.code]))
            )

    def send_again(self) -> None:
        if self.sent:
            self.send(self.rng.choice(self.sent))

    def send_other_under_same_id(self) -> None:
        if self.accepted:
            self.send(self.rng.choice(list(self.accepted.values()))._replace(said=self._words()))

    def send_stale(self) -> None:
        if self.accepted:
            before = self.rng.choice(list(self.accepted.values()))
            wrong = self.rng.choice([0, len(self.ledger[before.code]) - 1, 99])
            self.send(before._replace(said=self._words(), submission=uuid.uuid4(), revision=wrong))

    def save_unsaved_answer(self) -> None:
        if self.screens:
            rater, code = self.rng.choice(self.screens)
            self._client(rater).post(f"/rate/{code}/draft/", self._words().form())

    def end_session_and_send(self) -> None:
        """Send a form without a session, which saves nothing; sign in again and send the same form."""
        if not self.screens:
            return
        rater, code = self.screens[-1]
        form = Sent(rater, code, self._words(), uuid.uuid4(), 0)
        self._client(rater).session.flush()
        before = RatingEvent.objects.count()
        response = self._client(rater).post(f"/rate/{code}/", form.values(), headers={"HX-Request": "true"})
        assert response.status_code == 401 and RatingEvent.objects.count() == before
        del self.clients[rater.pk]
        self.send(form)

    def lose_response(self) -> None:
        """Let the server save an answer and die before it responds. The same form is sent again and must be confirmed."""
        if not self.screens:
            return
        rater, code = self.screens[-1]
        form = Sent(rater, code, self._words(), uuid.uuid4(), 0)
        lost_response = self._client(rater).post(f"/rate/{code}/", form.values())
        if lost_response.status_code == SAVED and RatingEvent.objects.filter(submission_id=form.submission).exists():
            self.ledger[code].append(form.said)
            self.accepted[form.submission] = form
        self.send(form)

    def lose_database_connection(self) -> None:
        """Let the database fail before an answer is completely written. Nothing of it may be stored, and the form is sent again."""
        if not self.screens:
            return
        rater, code = self.screens[-1]
        form = Sent(rater, code, self._words(), uuid.uuid4(), 0)
        before, browser = self._rows(), self._client(rater)
        browser.raise_request_exception = False
        with connection.execute_wrapper(Away('INSERT INTO "ratings_ratingevent"', 1)):
            failed = browser.post(f"/rate/{code}/", form.values()).status_code == 503
        browser.raise_request_exception = True
        assert not failed or self._rows() == before
        self.send(form)

    def withdraw_rater(self) -> None:
        if (rater := self._somebody()) and self.rng.random() < 0.5:
            self._client(rater).post(f"/rate/study/{rater.code}/withdraw/")

    def add_rater(self) -> None:
        if self.study.status in ("open", "paused"):
            self._seat(1)

    def add_items(self) -> None:
        """Add two items, of which one is often another version of an item that is there."""
        if self.study.status in ("open", "paused"):
            perturbation = self.rng.choice(("none", "obvious"))
            sources = [{"cast": "offline", "perturbation": perturbation, "count": 1}]
            pool_items = pool.find(lifecycle.read_protocol({**self.study.protocol, "sources": sources}))
            known = set(self.study.items.values_list("payload_sha256", flat=True))
            seating.add_items(self.study, [one for one in pool_items if one.candidate.content not in known][:2])

    def pause_or_resume(self) -> None:
        {"open": lifecycle.pause, "paused": lifecycle.resume}.get(self.study.status, lifecycle.reopen)(self.study)

    def close_or_reopen(self) -> None:
        {"closed": lifecycle.reopen}.get(self.study.status, lifecycle.close)(self.study)

    def expire_reservations(self) -> None:
        reservations = Assignment.objects.filter(rater__study=self.study, lease_until__isnull=False)
        if pks := list(reservations.order_by("pk").values_list("pk", flat=True)):
            some = self.rng.sample(pks, max(len(pks) // 2, 1))
            reservations.filter(pk__in=some).update(lease_until=F("lease_until") - timedelta(days=1))

    def import_rating(self) -> None:
        self.imported += 1
        item = self.rng.choice(list(self.study.items.order_by("payload_sha256").values_list("code", flat=True)))
        table = f"item,rater,verdict,confidence\n{item},somebody {self.imported},plausible,3\n"
        rating_imports.take(self.study, io.BytesIO(table.encode()))

    def send(self, form: Sent) -> None:
        """Post the form, and record the answer if the response confirms a new revision."""
        before = self._standing(form.code)
        response = self._client(form.seat).post(f"/rate/{form.code}/", form.values())
        self.sent.append(form)
        is_withdrawn = Rater.objects.get(pk=form.seat.pk).withdrawn_at is not None
        accepted = self.accepted.get(form.submission)
        if is_withdrawn:
            assert response.status_code == 404
        elif accepted is not None or form.said == before:
            assert response.status_code == (SAVED if accepted is None or accepted.said == form.said else 422)
        elif not self.study.is_open:
            assert response.status_code == SAVED or (
                before and response.status_code == 409
            )  # the page that explains it
        elif response.status_code == SAVED:
            assert before is None or form.revision == len(self.ledger[form.code])
            self.ledger[form.code].append(form.said)
            self.accepted[form.submission] = form
        else:
            assert response.status_code == 409 and before is not None

    # ------------------------------------------------------------------ invariants

    def check(self, readers: bool = True) -> None:
        """Check all invariants. The comparison of all `readers` takes longest; without it, many actions are cheap."""
        assignments = list(Assignment.objects.filter(rater__study=self.study).select_related("rater", "item__source"))
        ratings = {r.assignment_id: r for r in Rating.objects.filter(assignment__rater__study=self.study)}
        self._standing_is_last_of_all_versions(assignments, ratings)
        self._no_item_has_more_than_it_wants(assignments, ratings)
        self._nobody_meets_two_versions_and_nothing_moves(assignments)
        if readers:
            self._every_reader_counts_alike(assignments, ratings)

    def _standing_is_last_of_all_versions(self, places: list[Assignment], ratings: dict[int, Rating]) -> None:
        versions: dict[int, list[RatingEvent]] = defaultdict(list)
        for event in RatingEvent.objects.filter(assignment__rater__study=self.study).order_by("pk"):
            versions[event.assignment_id].append(event)
        assert versions.keys() == ratings.keys()
        for place in places:
            events = versions.get(place.pk, [])
            assert [event.revision for event in events] == list(range(1, len(events) + 1))
            if place.rater.imported_as:
                assert len(events) == 1
                continue
            assert [Said(e.verdict, e.confidence, e.note) for e in events] == self.ledger.get(place.code, [])
            if events:
                rating, last = ratings[place.pk], events[-1]
                for name in ("verdict", "confidence", "cannot_judge", "marks", "note", "revision", "submission_id"):
                    assert getattr(rating, name) == getattr(last, name)

    def _no_item_has_more_than_it_wants(self, places: list[Assignment], ratings: dict[int, Rating]) -> None:
        slots: dict[int, list[int]] = defaultdict(list)
        n_ratings: Counter[int] = Counter()
        for place in places:
            live = place.occasion == 1 and place.released_at is None and not place.rater.imported_as
            if live and place.slot is not None:
                slots[place.item_id].append(place.slot)
            if live and place.pk in ratings and not (place.surplus or place.rater.dropped):
                assert place.slot is not None  # every rating that counts has a slot
                n_ratings[place.item_id] += 1
        allowed_slots = range(1, self.study.ratings_per_item + 1)
        assert all(len(set(own)) == len(own) and set(own) <= set(allowed_slots) for own in slots.values())
        assert max(n_ratings.values(), default=0) <= self.study.ratings_per_item

    def _nobody_meets_two_versions_and_nothing_moves(self, places: list[Assignment]) -> None:
        pairs: dict[tuple[int, int], list[uuid.UUID]] = defaultdict(list)
        for place in places:
            if not place.rater.imported_as:
                assert place.pair == place.item.source.pair
                pairs[place.rater_id, place.occasion].append(place.pair)
        assert all(len(set(own)) == len(own) for own in pairs.values())
        current = {place.code: (place.rater_id, place.position, place.item_id, place.occasion) for place in places}
        assert {code: current.get(code) for code in self.met} == self.met

    def _every_reader_counts_alike(self, places: list[Assignment], ratings: dict[int, Rating]) -> None:
        """Count by hand: first occasion, not reassigned, not surplus, rater not dropped. The export names no item for an imported rating."""
        rows = Counter(
            (
                "" if place.rater.imported_as else str(place.item.code),
                place.rater.label, place.occasion, ratings[place.pk].revision,
                int(place.occasion == 1 and place.released_at is None and not place.surplus),
            )
            for place in places
            if place.pk in ratings and not place.rater.dropped
        )  # fmt: skip
        exported_rows = exports.rows(self.study, blinded=True)
        assert (
            Counter((str(r["item"]), r["rater"], r["occasion"], r["revision"], r["counts"]) for r in exported_rows)
            == rows
        )
        n_counted = sum(n for row, n in rows.items() if row[-1])
        assert reports.study_report(self.study).progress.done == stopping.look(self.study).given == n_counted

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """Reopen the study, add a few new raters, and let all raters answer everything they are assigned."""
        if self.study.status != "open":
            (lifecycle.resume if self.study.status == "paused" else lifecycle.reopen)(self.study)
        self.study.refresh_from_db()
        self._seat(self.study.ratings_per_item)
        self.study.refresh_from_db()
        while sum(self._answer_all(seat) for seat in self._present()):
            pass  # an item reserved by one rater may become free for another
        self.check()

    def given(self) -> Counter[int]:
        """Count the ratings of each item that count, without imported ones."""
        rows = Assignment.objects.filter(rater__study=self.study, rater__imported_as="", rater__dropped=False)
        rows = rows.filter(occasion=1, released_at=None, surplus=False, rating__isnull=False)
        return Counter(rows.values_list("item", flat=True))

    # ------------------------------------------------------------------

    def _rows(self) -> tuple[int, int]:
        return Rating.objects.count(), RatingEvent.objects.count()

    def _seat(self, count: int) -> None:
        for rater in seating.add_seats(self.study, count):
            study_factory.seat(self.study, rater.label)

    def _answer_all(self, seat: Rater) -> int:
        """Answer everything by function calls: other actions cover the pages."""
        count = 0
        while assignment := serving.next_assignment(seat):
            answer = self._words()
            answering.rate(assignment, *answer[:2], uuid.uuid4(), note=answer.note, cannot_judge=answer.verdict is None)
            self.ledger[assignment.code].append(answer)
            count += 1
        return count

    def _come(self, seat: Rater) -> uuid.UUID | None:
        """Return the assignment that the rater is shown next, or None if it is another page."""
        address = self._client(seat).get(f"/rate/study/{seat.code}/").get("Location", "")
        if not address or "/study/" in address:
            return None
        response = self._client(seat).get(address)
        return uuid.UUID(address.strip("/").split("/")[-1]) if response.status_code == 200 else None

    def _meet(self, seat: Rater, code: uuid.UUID) -> None:
        assignment = Assignment.objects.get(code=code)
        assert assignment.rater_id == seat.pk
        current = (assignment.rater_id, assignment.position, assignment.item_id, assignment.occasion)
        assert self.met.setdefault(code, current) == current
        self.screens.append((seat, code))

    def _present(self) -> list[Rater]:
        return list(self.study.raters.filter(withdrawn_at=None, user__isnull=False).order_by("number"))

    def _somebody(self) -> Rater | None:
        raters = self._present()
        return self.rng.choice(raters) if raters else None

    def _client(self, seat: Rater) -> Client:
        if seat.pk not in self.clients:
            assert seat.user is not None
            self.clients[seat.pk] = Client()
            self.clients[seat.pk].force_login(seat.user)
        return self.clients[seat.pk]

    def _standing(self, code: uuid.UUID) -> Said | None:
        versions = self.ledger.get(code)
        return versions[-1] if versions else None

    def _words(self) -> Said:
        if self.rng.random() < 0.1:
            return Said(None, None, "too little to go by")
        return Said(self.rng.random() < 0.6, self.rng.randint(1, 5), self.rng.choice(("", "=odd", "µ")))
