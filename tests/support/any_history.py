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
from ratings.rating import next_item, submit
from ratings.studies import lifecycle, pool, progress, running_raters
from ratings.studies.item_counts import ITEM_COUNTS
from ratings.web.study.study import add_list_counts
from tests.support import study_factory
from tests.support.steps import DatabaseOutage

SAVED = 303


class Answer(NamedTuple):
    verdict: bool | None
    confidence: int | None
    note: str

    def to_form(self) -> dict[str, str]:
        if self.verdict is None:
            return {"cannot_judge": "on", "note": self.note}
        return {"verdict": "yes" if self.verdict else "no", "confidence": str(self.confidence), "note": self.note}


class SentForm(NamedTuple):
    """A form as a browser sent it."""

    rater: Rater
    code: uuid.UUID
    answer: Answer
    submission: uuid.UUID
    revision: int

    def to_form(self) -> dict[str, str]:
        return {**self.answer.to_form(), "submission_id": str(self.submission), "revision": str(self.revision)}


@dataclass
class StudyHistory:
    """The test's own record of a study.

    `ledger` has the answers to each assignment that the site confirmed as saved, revision by revision. The other fields remember
    which pages raters have open, what they sent, and which item they met at which position.
    """

    study: Study
    rng: random.Random
    clients: dict[int, Client] = field(default_factory=dict)
    saved_answers: dict[uuid.UUID, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    accepted: dict[uuid.UUID, SentForm] = field(default_factory=dict)
    sent: list[SentForm] = field(default_factory=list)
    open_pages: list[tuple[Rater, uuid.UUID]] = field(default_factory=list)
    seen_assignments: dict[uuid.UUID, tuple[int, int, int, int]] = field(default_factory=dict)
    n_imported: int = 0

    # ------------------------------------------------------------------ actions

    def run_action(self, name: str, seed: int) -> None:
        """Run the method of this name, with its choices drawn from the seed `chance`."""
        self.rng = random.Random(seed)
        getattr(self, name)()
        self.study.refresh_from_db()

    def show_next_item(self) -> None:
        """Open the next item of a rater. The page stays open, in a tab of its own."""
        if (rater := self._choose_rater()) and (code := self._open_next_page(rater)):
            self._record_assignment(rater, code)

    def answer_open_page(self) -> None:
        """Answer any page that was ever shown: most often the newest."""
        if not self.open_pages or self.rng.random() < 0.5:
            self.show_next_item()
        if self.open_pages:
            rater, code = self.open_pages[-1] if self.rng.random() < 0.7 else self.rng.choice(self.open_pages)
            self.send_form(SentForm(rater, code, self._draw_answer(), uuid.uuid4(), 0))

    def correct_answer(self) -> None:
        """Correct any answer, starting from its current revision, whether or not that is allowed."""
        if self.saved_answers:
            before = self.rng.choice(list(self.accepted.values()))
            self.send_form(
                before._replace(
                    answer=self._draw_answer(), submission=uuid.uuid4(), revision=len(self.saved_answers[before.code])
                )
            )

    def send_again(self) -> None:
        if self.sent:
            self.send_form(self.rng.choice(self.sent))

    def send_other_under_same_id(self) -> None:
        if self.accepted:
            self.send_form(self.rng.choice(list(self.accepted.values()))._replace(answer=self._draw_answer()))

    def send_stale(self) -> None:
        if self.accepted:
            before = self.rng.choice(list(self.accepted.values()))
            wrong = self.rng.choice([0, len(self.saved_answers[before.code]) - 1, 99])
            self.send_form(before._replace(answer=self._draw_answer(), submission=uuid.uuid4(), revision=wrong))

    def save_unsaved_answer(self) -> None:
        if self.open_pages:
            rater, code = self.rng.choice(self.open_pages)
            self._get_client(rater).post(f"/rate/{code}/draft/", self._draw_answer().to_form())

    def end_session_and_send(self) -> None:
        """Send a form without a session, which saves nothing; sign in again and send the same form."""
        if not self.open_pages:
            return
        rater, code = self.open_pages[-1]
        form = SentForm(rater, code, self._draw_answer(), uuid.uuid4(), 0)
        self._get_client(rater).session.flush()
        before = RatingEvent.objects.count()
        response = self._get_client(rater).post(f"/rate/{code}/", form.to_form(), headers={"HX-Request": "true"})
        assert response.status_code == 401 and RatingEvent.objects.count() == before
        del self.clients[rater.pk]
        self.send_form(form)

    def lose_response(self) -> None:
        """Let the server save an answer and die before it responds. The same form is sent again and must be confirmed."""
        if not self.open_pages:
            return
        rater, code = self.open_pages[-1]
        form = SentForm(rater, code, self._draw_answer(), uuid.uuid4(), 0)
        lost_response = self._get_client(rater).post(f"/rate/{code}/", form.to_form())
        if lost_response.status_code == SAVED and RatingEvent.objects.filter(submission_id=form.submission).exists():
            self.saved_answers[code].append(form.answer)
            self.accepted[form.submission] = form
        self.send_form(form)

    def lose_database_connection(self) -> None:
        """Let the database fail before an answer is completely written. Nothing of it may be stored, and the form is sent again."""
        if not self.open_pages:
            return
        rater, code = self.open_pages[-1]
        form = SentForm(rater, code, self._draw_answer(), uuid.uuid4(), 0)
        before, browser = self._count_rows(), self._get_client(rater)
        browser.raise_request_exception = False
        with connection.execute_wrapper(DatabaseOutage('INSERT INTO "ratings_ratingevent"', 1)):
            failed = browser.post(f"/rate/{code}/", form.to_form()).status_code == 503
        browser.raise_request_exception = True
        assert not failed or self._count_rows() == before
        self.send_form(form)

    def withdraw_rater(self) -> None:
        if (rater := self._choose_rater()) and self.rng.random() < 0.5:
            self._get_client(rater).post(f"/rate/study/{rater.code}/withdraw/")

    def add_rater(self) -> None:
        if self.study.status in ("open", "paused"):
            self._add_raters(1)

    def add_items(self) -> None:
        """Add two items, of which one is often another version of an item that is there."""
        if self.study.status in ("open", "paused"):
            perturbation = self.rng.choice(("none", "obvious"))
            sources = [{"cast": "offline", "perturbation": perturbation, "count": 1}]
            pool_items = pool.list_usable_candidates(
                lifecycle.parse_protocol({**self.study.protocol, "sources": sources})
            )
            known = set(self.study.items.values_list("payload_sha256", flat=True))
            running_raters.add_items(self.study, [one for one in pool_items if one.candidate.content not in known][:2])

    def pause_or_resume(self) -> None:
        {"open": lifecycle.pause_study, "paused": lifecycle.resume_study}.get(
            self.study.status, lifecycle.reopen_study
        )(self.study)

    def close_or_reopen(self) -> None:
        {"closed": lifecycle.reopen_study}.get(self.study.status, lifecycle.close_study)(self.study)

    def expire_reservations(self) -> None:
        reservations = Assignment.objects.filter(rater__study=self.study, reserved_until__isnull=False)
        if pks := list(reservations.order_by("pk").values_list("pk", flat=True)):
            some = self.rng.sample(pks, max(len(pks) // 2, 1))
            reservations.filter(pk__in=some).update(reserved_until=F("reserved_until") - timedelta(days=1))

    def import_rating(self) -> None:
        self.n_imported += 1
        item = self.rng.choice(list(self.study.items.order_by("payload_sha256").values_list("code", flat=True)))
        table = f"item,rater,verdict,confidence\n{item},somebody {self.n_imported},plausible,3\n"
        rating_imports.import_file(self.study, io.BytesIO(table.encode()))

    def send_form(self, form: SentForm) -> None:
        """Post the form, and record the answer if the response confirms a new revision."""
        before = self._get_current_answer(form.code)
        response = self._get_client(form.rater).post(f"/rate/{form.code}/", form.to_form())
        self.sent.append(form)
        is_withdrawn = Rater.objects.get(pk=form.rater.pk).withdrawn_at is not None
        accepted = self.accepted.get(form.submission)
        if is_withdrawn:
            assert response.status_code == 404
        elif accepted is not None or form.answer == before:
            assert response.status_code == (SAVED if accepted is None or accepted.answer == form.answer else 422)
        elif not self.study.is_open:
            assert response.status_code == SAVED or (
                before and response.status_code == 409
            )  # the page that explains it
        elif response.status_code == SAVED:
            assert before is None or form.revision == len(self.saved_answers[form.code])
            self.saved_answers[form.code].append(form.answer)
            self.accepted[form.submission] = form
        else:
            assert response.status_code == 409 and before is not None

    # ------------------------------------------------------------------ invariants

    def check_invariants(self, readers: bool = True) -> None:
        """Check all invariants. The comparison of all `readers` takes longest; without it, many actions are cheap."""
        assignments = list(Assignment.objects.filter(rater__study=self.study).select_related("rater", "item__source"))
        ratings = {r.assignment_id: r for r in Rating.objects.filter(assignment__rater__study=self.study)}
        self._check_ratings_are_last_revisions(assignments, ratings)
        self._check_items_have_no_surplus(assignments, ratings)
        self._check_pairs_and_positions(assignments)
        if readers:
            self._check_counts_agree(assignments, ratings)

    def _check_ratings_are_last_revisions(self, assignments: list[Assignment], ratings: dict[int, Rating]) -> None:
        versions: dict[int, list[RatingEvent]] = defaultdict(list)
        for event in RatingEvent.objects.filter(assignment__rater__study=self.study).order_by("pk"):
            versions[event.assignment_id].append(event)
        assert versions.keys() == ratings.keys()
        for assignment in assignments:
            events = versions.get(assignment.pk, [])
            assert [event.revision for event in events] == list(range(1, len(events) + 1))
            if assignment.rater.imported_as:
                assert len(events) == 1
                continue
            assert [Answer(e.verdict, e.confidence, e.note) for e in events] == self.saved_answers.get(
                assignment.code, []
            )
            if events:
                rating, last = ratings[assignment.pk], events[-1]
                for name in ("verdict", "confidence", "cannot_judge", "marks", "note", "revision", "submission_id"):
                    assert getattr(rating, name) == getattr(last, name)

    def _check_items_have_no_surplus(self, assignments: list[Assignment], ratings: dict[int, Rating]) -> None:
        slots: dict[int, list[int]] = defaultdict(list)
        n_ratings: Counter[int] = Counter()
        for assignment in assignments:
            live = assignment.occasion == 1 and assignment.released_at is None and not assignment.rater.imported_as
            if live and assignment.slot is not None:
                slots[assignment.item_id].append(assignment.slot)
            if live and assignment.pk in ratings and not (assignment.surplus or assignment.rater.dropped):
                assert assignment.slot is not None  # every rating that counts has a slot
                n_ratings[assignment.item_id] += 1
        allowed_slots = range(1, self.study.ratings_per_item + 1)
        assert all(len(set(own)) == len(own) and set(own) <= set(allowed_slots) for own in slots.values())
        assert max(n_ratings.values(), default=0) <= self.study.ratings_per_item

    def _check_pairs_and_positions(self, assignments: list[Assignment]) -> None:
        pairs: dict[tuple[int, int], list[uuid.UUID]] = defaultdict(list)
        for assignment in assignments:
            if not assignment.rater.imported_as:
                assert assignment.pair == assignment.item.source.pair
                pairs[assignment.rater_id, assignment.occasion].append(assignment.pair)
        assert all(len(set(own)) == len(own) for own in pairs.values())
        current = {
            assignment.code: (assignment.rater_id, assignment.position, assignment.item_id, assignment.occasion)
            for assignment in assignments
        }
        assert {code: current.get(code) for code in self.seen_assignments} == self.seen_assignments

    def _check_counts_agree(self, assignments: list[Assignment], ratings: dict[int, Rating]) -> None:
        """Count by hand: first occasion, not reassigned, not surplus, rater not dropped. The export names no item for an imported rating."""
        rows = Counter(
            (
                "" if assignment.rater.imported_as else str(assignment.item.code),
                assignment.rater.label, assignment.occasion, ratings[assignment.pk].revision,
                int(assignment.occasion == 1 and assignment.released_at is None and not assignment.surplus),
            )
            for assignment in assignments
            if assignment.pk in ratings and not assignment.rater.dropped
        )  # fmt: skip
        exported_rows = exports.iter_rating_cells(self.study, blinded=True)
        assert (
            Counter((str(r["item"]), r["rater"], r["occasion"], r["revision"], r["counts"]) for r in exported_rows)
            == rows
        )
        n_counted = sum(n for row, n in rows.items() if row[-1])
        [listed] = add_list_counts([self.study])
        assert (
            progress.build_report(self.study).progress.done
            == progress.evaluate_stop_rule(self.study).given
            == listed.given
            == n_counted
        )
        counts: dict[int, Counter[str]] = {rater: Counter() for rater in self.study.raters.values_list("pk", flat=True)}
        for assignment in assignments:
            own, rating, is_live = counts[assignment.rater_id], ratings.get(assignment.pk), not assignment.released_at
            own["answered"] += rating is not None
            own["waiting"] += rating is None and is_live
            own["counted"] += bool(rating and assignment.occasion == 1 and is_live and not assignment.surplus)
            own["corrected"] += rating.revision - 1 if rating else 0
        stored = self.study.raters.values_list("pk", *ITEM_COUNTS, "corrections")
        assert {pk: tuple(numbers) for pk, *numbers in stored} == {
            pk: (own["answered"], own["waiting"], own["counted"], own["corrected"]) for pk, own in counts.items()
        }

    # ------------------------------------------------------------------ the end

    def finish(self) -> None:
        """Reopen the study, add a few new raters, and let all raters answer everything they are assigned."""
        if self.study.status != "open":
            (lifecycle.resume_study if self.study.status == "paused" else lifecycle.reopen_study)(self.study)
        self.study.refresh_from_db()
        self._add_raters(self.study.ratings_per_item)
        self.study.refresh_from_db()
        while sum(self._answer_all(rater) for rater in self._list_raters()):
            pass  # an item reserved by one rater may become free for another
        self.check_invariants()

    def count_ratings(self) -> Counter[int]:
        """Count the ratings of each item that count, without imported ones."""
        rows = Assignment.objects.filter(rater__study=self.study, rater__imported_as="", rater__dropped=False)
        rows = rows.filter(occasion=1, released_at=None, surplus=False, rating__isnull=False)
        return Counter(rows.values_list("item", flat=True))

    # ------------------------------------------------------------------

    def _count_rows(self) -> tuple[int, int]:
        return Rating.objects.count(), RatingEvent.objects.count()

    def _add_raters(self, count: int) -> None:
        for rater in running_raters.add_rater_places(self.study, count):
            study_factory.fill_rater_place(self.study, rater.label)

    def _answer_all(self, rater: Rater) -> int:
        """Answer everything by function calls: other actions cover the pages."""
        count = 0
        while assignment := next_item.find_next_assignment(rater):
            answer = self._draw_answer()
            submit.submit_rating(
                assignment, *answer[:2], uuid.uuid4(), note=answer.note, cannot_judge=answer.verdict is None
            )
            self.saved_answers[assignment.code].append(answer)
            count += 1
        return count

    def _open_next_page(self, rater: Rater) -> uuid.UUID | None:
        """Return the assignment that the rater is shown next, or None if it is another page."""
        address = self._get_client(rater).get(f"/rate/study/{rater.code}/").get("Location", "")
        if not address or "/study/" in address:
            return None
        response = self._get_client(rater).get(address)
        return uuid.UUID(address.strip("/").split("/")[-1]) if response.status_code == 200 else None

    def _record_assignment(self, rater: Rater, code: uuid.UUID) -> None:
        assignment = Assignment.objects.get(code=code)
        assert assignment.rater_id == rater.pk
        current = (assignment.rater_id, assignment.position, assignment.item_id, assignment.occasion)
        assert self.seen_assignments.setdefault(code, current) == current
        self.open_pages.append((rater, code))

    def _list_raters(self) -> list[Rater]:
        return list(self.study.raters.filter(withdrawn_at=None, user__isnull=False).order_by("number"))

    def _choose_rater(self) -> Rater | None:
        raters = self._list_raters()
        return self.rng.choice(raters) if raters else None

    def _get_client(self, rater: Rater) -> Client:
        if rater.pk not in self.clients:
            assert rater.user is not None
            self.clients[rater.pk] = Client()
            self.clients[rater.pk].force_login(rater.user)
        return self.clients[rater.pk]

    def _get_current_answer(self, code: uuid.UUID) -> Answer | None:
        versions = self.saved_answers.get(code)
        return versions[-1] if versions else None

    def _draw_answer(self) -> Answer:
        if self.rng.random() < 0.1:
            return Answer(None, None, "too little to go by")
        return Answer(self.rng.random() < 0.6, self.rng.randint(1, 5), self.rng.choice(("", "=odd", "µ")))
