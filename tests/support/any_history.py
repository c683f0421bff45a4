"""A study to which anything happens in any order, through the doors raters and admins use, and a ledger kept beside it."""

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
    """`ledger`: what each place was answered, version by version, by what raters were told was saved. The rest remembers
    which pages raters have before them, what they sent, and at which position they met what."""

    study: Study
    rng: random.Random
    clients: dict[int, Client] = field(default_factory=dict)
    ledger: dict[uuid.UUID, list[Said]] = field(default_factory=lambda: defaultdict(list))
    accepted: dict[uuid.UUID, Sent] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    screens: list[tuple[Rater, uuid.UUID]] = field(default_factory=list)
    met: dict[uuid.UUID, tuple[int, int, int, int]] = field(default_factory=dict)
    imported: int = 0

    # ------------------------------------------------------------------ what may happen

    def act(self, name: str, chance: int) -> None:
        """One of the methods below, with what it chooses decided by `chance`."""
        self.rng = random.Random(chance)
        getattr(self, name)()
        self.study.refresh_from_db()

    def show(self) -> None:
        """A rater comes for the next item; what is shown stays before them, in a tab of its own."""
        if (seat := self._somebody()) and (code := self._come(seat)):
            self._meet(seat, code)

    def rate(self) -> None:
        """Any page that was ever shown is answered: the newest most often, old ones too."""
        if not self.screens or self.rng.random() < 0.5:
            self.show()
        if self.screens:
            seat, code = self.screens[-1] if self.rng.random() < 0.7 else self.rng.choice(self.screens)
            self.send(Sent(seat, code, self._words(), uuid.uuid4(), 0))

    def edit(self) -> None:
        """Any answer is corrected with the version that stands, allowed or not."""
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

    def keep_draft(self) -> None:
        if self.screens:
            seat, code = self.rng.choice(self.screens)
            self._client(seat).post(f"/rate/{code}/draft/", self._words().form())

    def end_session_and_send(self) -> None:
        """A form is sent without a session, which saves nothing; after signing in again the same form is sent again."""
        if not self.screens:
            return
        seat, code = self.screens[-1]
        form = Sent(seat, code, self._words(), uuid.uuid4(), 0)
        self._client(seat).session.flush()
        before = RatingEvent.objects.count()
        answer = self._client(seat).post(f"/rate/{code}/", form.values(), headers={"HX-Request": "true"})
        assert answer.status_code == 401 and RatingEvent.objects.count() == before
        del self.clients[seat.pk]
        self.send(form)

    def lose_the_answer(self) -> None:
        """The server took an answer and died before it said so: the same form is sent again and told what stands."""
        if not self.screens:
            return
        seat, code = self.screens[-1]
        form = Sent(seat, code, self._words(), uuid.uuid4(), 0)
        unseen = self._client(seat).post(f"/rate/{code}/", form.values())
        if unseen.status_code == SAVED and RatingEvent.objects.filter(submission_id=form.submission).exists():
            self.ledger[code].append(form.said)
            self.accepted[form.submission] = form
        self.send(form)

    def die_in_the_middle(self) -> None:
        """The database went away before an answer was written whole: nothing of it is there, and the form is sent again."""
        if not self.screens:
            return
        seat, code = self.screens[-1]
        form = Sent(seat, code, self._words(), uuid.uuid4(), 0)
        before, browser = self._rows(), self._client(seat)
        browser.raise_request_exception = False
        with connection.execute_wrapper(Away('INSERT INTO "ratings_ratingevent"', 1)):
            died = browser.post(f"/rate/{code}/", form.values()).status_code == 503
        browser.raise_request_exception = True
        assert not died or self._rows() == before
        self.send(form)

    def withdraw(self) -> None:
        if (seat := self._somebody()) and self.rng.random() < 0.5:
            self._client(seat).post(f"/rate/study/{seat.code}/withdraw/")

    def add_seat(self) -> None:
        if self.study.status in ("open", "paused"):
            self._seat(1)

    def add_items(self) -> None:
        """Two more, of which one is often a version of what is there."""
        if self.study.status in ("open", "paused"):
            wrong = self.rng.choice(("none", "obvious"))
            sources = [{"cast": "offline", "perturbation": wrong, "count": 1}]
            found = pool.find(lifecycle.read_protocol({**self.study.protocol, "sources": sources}))
            known = set(self.study.items.values_list("payload_sha256", flat=True))
            seating.add_items(self.study, [one for one in found if one.candidate.content not in known][:2])

    def pause_or_resume(self) -> None:
        {"open": lifecycle.pause, "paused": lifecycle.resume}.get(self.study.status, lifecycle.reopen)(self.study)

    def close_or_reopen(self) -> None:
        {"closed": lifecycle.reopen}.get(self.study.status, lifecycle.close)(self.study)

    def let_leases_end(self) -> None:
        live = Assignment.objects.filter(rater__study=self.study, lease_until__isnull=False)
        if pks := list(live.order_by("pk").values_list("pk", flat=True)):
            some = self.rng.sample(pks, max(len(pks) // 2, 1))
            live.filter(pk__in=some).update(lease_until=F("lease_until") - timedelta(days=1))

    def import_a_rating(self) -> None:
        self.imported += 1
        item = self.rng.choice(list(self.study.items.order_by("payload_sha256").values_list("code", flat=True)))
        table = f"item,rater,verdict,confidence\n{item},somebody {self.imported},plausible,3\n"
        rating_imports.take(self.study, io.BytesIO(table.encode()))

    def send(self, form: Sent) -> None:
        """Post it, and write into the ledger what the answer says: a version more, or nothing."""
        before = self._standing(form.code)
        answer = self._client(form.seat).post(f"/rate/{form.code}/", form.values())
        self.sent.append(form)
        gone = Rater.objects.get(pk=form.seat.pk).withdrawn_at is not None
        taken = self.accepted.get(form.submission)
        if gone:
            assert answer.status_code == 404
        elif taken is not None or form.said == before:
            assert answer.status_code == (SAVED if taken is None or taken.said == form.said else 422)
        elif not self.study.is_open:
            assert answer.status_code == SAVED or (before and answer.status_code == 409)  # the page that says so
        elif answer.status_code == SAVED:
            assert before is None or form.revision == len(self.ledger[form.code])
            self.ledger[form.code].append(form.said)
            self.accepted[form.submission] = form
        else:
            assert answer.status_code == 409 and before is not None

    # ------------------------------------------------------------------ what must hold

    def check(self, readers: bool = True) -> None:
        """Whether all `readers` count alike takes longest: leaving that out now and then is what makes many acts cheap."""
        places = list(Assignment.objects.filter(rater__study=self.study).select_related("rater", "item__source"))
        ratings = {r.assignment_id: r for r in Rating.objects.filter(assignment__rater__study=self.study)}
        self._standing_is_last_of_all_versions(places, ratings)
        self._no_item_has_more_than_it_wants(places, ratings)
        self._nobody_meets_two_versions_and_nothing_moves(places)
        if readers:
            self._every_reader_counts_alike(places, ratings)

    def _standing_is_last_of_all_versions(self, places: list[Assignment], ratings: dict[int, Rating]) -> None:
        versions: dict[int, list[RatingEvent]] = defaultdict(list)
        for event in RatingEvent.objects.filter(assignment__rater__study=self.study).order_by("pk"):
            versions[event.assignment_id].append(event)
        assert versions.keys() == ratings.keys()
        for place in places:
            own = versions.get(place.pk, [])
            assert [event.revision for event in own] == list(range(1, len(own) + 1))
            if place.rater.imported_as:
                assert len(own) == 1
                continue
            assert [Said(e.verdict, e.confidence, e.note) for e in own] == self.ledger.get(place.code, [])
            if own:
                standing, last = ratings[place.pk], own[-1]
                for name in ("verdict", "confidence", "cannot_judge", "marks", "note", "revision", "submission_id"):
                    assert getattr(standing, name) == getattr(last, name)

    def _no_item_has_more_than_it_wants(self, places: list[Assignment], ratings: dict[int, Rating]) -> None:
        slots: dict[int, list[int]] = defaultdict(list)
        given: Counter[int] = Counter()
        for place in places:
            live = place.occasion == 1 and place.released_at is None and not place.rater.imported_as
            if live and place.slot is not None:
                slots[place.item_id].append(place.slot)
            if live and place.pk in ratings and not (place.surplus or place.rater.dropped):
                assert place.slot is not None  # what counts holds one of the wanted ratings
                given[place.item_id] += 1
        wanted = range(1, self.study.ratings_per_item + 1)
        assert all(len(set(own)) == len(own) and set(own) <= set(wanted) for own in slots.values())
        assert max(given.values(), default=0) <= self.study.ratings_per_item

    def _nobody_meets_two_versions_and_nothing_moves(self, places: list[Assignment]) -> None:
        pairs: dict[tuple[int, int], list[uuid.UUID]] = defaultdict(list)
        for place in places:
            if not place.rater.imported_as:
                assert place.pair == place.item.source.pair
                pairs[place.rater_id, place.occasion].append(place.pair)
        assert all(len(set(own)) == len(own) for own in pairs.values())
        now = {place.code: (place.rater_id, place.position, place.item_id, place.occasion) for place in places}
        assert {code: now.get(code) for code in self.met} == self.met

    def _every_reader_counts_alike(self, places: list[Assignment], ratings: dict[int, Rating]) -> None:
        """By hand: first occasion, not taken back, no surplus, rater not dropped. The file names no imported rating's item."""
        rows = Counter(
            (
                "" if place.rater.imported_as else str(place.item.code),
                place.rater.label, place.occasion, ratings[place.pk].revision,
                int(place.occasion == 1 and place.released_at is None and not place.surplus),
            )
            for place in places
            if place.pk in ratings and not place.rater.dropped
        )  # fmt: skip
        file = exports.rows(self.study, blinded=True)
        assert Counter((str(r["item"]), r["rater"], r["occasion"], r["revision"], r["counts"]) for r in file) == rows
        counting = sum(n for row, n in rows.items() if row[-1])
        assert reports.study_report(self.study).progress.done == stopping.look(self.study).given == counting

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """Everything is opened again, a few fresh raters come, and all answer all they get."""
        if self.study.status != "open":
            (lifecycle.resume if self.study.status == "paused" else lifecycle.reopen)(self.study)
        self.study.refresh_from_db()
        self._seat(self.study.ratings_per_item)
        self.study.refresh_from_db()
        while sum(self._answer_all(seat) for seat in self._present()):
            pass  # what one held, another may have had to wait for
        self.check()

    def given(self) -> Counter[int]:
        """How many ratings that count each item has, those collected elsewhere apart."""
        rows = Assignment.objects.filter(rater__study=self.study, rater__imported_as="", rater__dropped=False)
        rows = rows.filter(occasion=1, released_at=None, surplus=False, rating__isnull=False)
        return Counter(rows.values_list("item", flat=True))

    # ------------------------------------------------------------------

    def _rows(self) -> tuple[int, int]:
        return Rating.objects.count(), RatingEvent.objects.count()

    def _seat(self, count: int) -> None:
        for seat in seating.add_seats(self.study, count):
            study_factory.seat(self.study, seat.label)

    def _answer_all(self, seat: Rater) -> int:
        """Without the pages in between: they were walked enough."""
        count = 0
        while place := serving.next_assignment(seat):
            said = self._words()
            answering.rate(place, *said[:2], uuid.uuid4(), note=said.note, cannot_judge=said.verdict is None)
            self.ledger[place.code].append(said)
            count += 1
        return count

    def _come(self, seat: Rater) -> uuid.UUID | None:
        """What this rater is shown when they come for the next item; None where it is another page."""
        address = self._client(seat).get(f"/rate/study/{seat.code}/").get("Location", "")
        if not address or "/study/" in address:
            return None
        shown = self._client(seat).get(address)
        return uuid.UUID(address.strip("/").split("/")[-1]) if shown.status_code == 200 else None

    def _meet(self, seat: Rater, code: uuid.UUID) -> None:
        place = Assignment.objects.get(code=code)
        assert place.rater_id == seat.pk
        now = (place.rater_id, place.position, place.item_id, place.occasion)
        assert self.met.setdefault(code, now) == now
        self.screens.append((seat, code))

    def _present(self) -> list[Rater]:
        return list(self.study.raters.filter(withdrawn_at=None, user__isnull=False).order_by("number"))

    def _somebody(self) -> Rater | None:
        seats = self._present()
        return self.rng.choice(seats) if seats else None

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
