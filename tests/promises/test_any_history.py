"""Model-based: whatever happens to a study, in any order, its promises hold at each step and everybody comes to an end.

`any_history.History` is the model, a ledger of what raters were told was saved. Each design is walked through under each
rule of withdrawal, every act at least once; `make thorough` lets Hypothesis choose the acts, and shrink the history that failed.
"""

import random

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from ratings.models import Assignment
from tests.support import run_factory, study_factory
from tests.support.any_history import History

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

STEPS, FIRST, SEED = 32, 5, 1
OPENED = 0.8  # of the times that an act finds a closed or paused study, it is opened first
CHANCE = st.integers(0, 2**32 - 1)
# What may happen, and how often of a hundred acts or so.
OFTEN = {
    "show_next_item": 8, "answer_open_page": 14, "correct_answer": 5, "send_again": 3, "send_other_under_same_id": 2, "send_stale": 3, "save_unsaved_answer": 2,
    "end_session_and_send": 2, "lose_response": 2, "lose_database_connection": 2, "withdraw_rater": 1, "add_rater": 1, "add_items": 1, "pause_or_resume": 1,
    "close_or_reopen": 1, "expire_reservations": 2, "import_rating": 1,
}  # fmt: skip


def begin(design: str, rule: str, seed: int) -> History:
    """Six items of which two may be versions of one thing, two ratings each, a fifth of them twice."""
    run_factory.pool(16)
    sources = [
        {"cast": "offline", "perturbation": "none", "count": 5},
        {"cast": "offline", "perturbation": "obvious", "count": 1},
    ]
    study = study_factory.open_study(
        2 if design == "crossed" else 4, sources=sources, design=design, ratings_per_item=2, withdrawal=rule, seed=seed,
        practice=0, repeats=0.2, repeat_distance=2,
    )  # fmt: skip
    study_factory.seat_all(study)
    return History(study, random.Random(seed))


def ended(history: History, design: str) -> None:
    """No item is without what it wants, and nobody is left out."""
    if design != "crossed":
        items = history.study.items.values_list("pk", flat=True)
        assert history.given() == dict.fromkeys(items, history.study.ratings_per_item)
    places = Assignment.objects.filter(rater__study=history.study, rater__withdrawn_at=None, rater__imported_as="")
    assert design == "pool" or not places.filter(rating=None, released_at=None).exists()


class AnyHistory(RuleBasedStateMachine):
    """The same acts in the order that Hypothesis chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.all_of_it = transaction.atomic()
        self.all_of_it.__enter__()
        self.history: History | None = None

    @initialize(
        design=st.sampled_from(["balanced", "pool", "crossed"]), rule=st.sampled_from(["keep", "drop"]), seed=CHANCE
    )
    def open(self, design: str, rule: str, seed: int) -> None:
        self.history, self.design = begin(design, rule, seed % 1000), design

    @rule(act=st.sampled_from([name for name, weight in OFTEN.items() for _ in range(weight)]), chance=CHANCE)
    def act(self, act: str, chance: int) -> None:
        assert self.history is not None
        self.history.act(act, chance)
        self.history.check()

    @precondition(lambda self: self.history is not None and not self.history.study.is_open)
    @rule()
    def open_again(self) -> None:
        assert self.history is not None
        self.history.act("pause_or_resume", 0)
        self.history.check()

    def teardown(self) -> None:
        """Everything comes to an end: no item is without what it wants, and nobody is left out."""
        try:
            if self.history is not None:
                self.history.finish()
                ended(self.history, self.design)
        finally:
            transaction.set_rollback(True)
            self.all_of_it.__exit__(None, None, None)


@pytest.mark.parametrize("rule", ["keep", "drop"])
@pytest.mark.parametrize("design", ["balanced", "pool", "crossed"])
def test_whatever_happens_answers_are_kept_and_each_item_ends_with_as_many_as_it_wants(design: str, rule: str) -> None:
    history, chance, done = begin(design, rule, SEED), random.Random(f"{design}/{rule}/{SEED}"), list[str]()
    acts = [*OFTEN, *chance.choices(list(OFTEN), list(OFTEN.values()), k=STEPS - len(OFTEN))]
    chance.shuffle(acts)
    try:
        for number, act in enumerate([*["answer_open_page"] * FIRST, *acts]):
            if not history.study.is_open and chance.random() < OPENED:
                history.act("pause_or_resume", 0)
            done.append(act)
            history.act(act, chance.getrandbits(32))
            history.check(readers=number % 5 == 0)
        assert len(history.accepted) > 5, "hardly anything was answered: the history says too little"
        history.finish()
        ended(history, design)
    except AssertionError as error:
        error.add_note(f"after {', '.join(done)}")
        raise


@pytest.mark.thorough
def test_whatever_happens_in_many_more_histories_the_same_holds() -> None:
    told = settings(
        max_examples=100, stateful_step_count=STEPS, derandomize=True, deadline=None, database=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(AnyHistory, settings=told)
