"""Model-based tests: whatever happens to a study, in any order, its promises hold after each action and all raters can finish.

`any_history.StudyHistory` is the model: the answers that raters were told were saved. Each design is tested with each
withdrawal rule, every action at least once. In `make thorough` Hypothesis chooses the actions and shrinks a failing history.
"""

import random

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from ratings.models import Assignment
from tests.support import run_factory, study_factory
from tests.support.any_history import StudyHistory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

STEPS, N_FIRST_ANSWERS, SEED = 32, 5, 1
P_REOPEN = 0.8  # probability that a closed or paused study is reopened before an action
SEEDS = st.integers(0, 2**32 - 1)
# The actions and their relative frequencies.
ACTION_WEIGHTS = {
    "show_next_item": 8, "answer_open_page": 14, "correct_answer": 5, "send_again": 3, "send_other_under_same_id": 2, "send_stale": 3, "save_unsaved_answer": 2,
    "end_session_and_send": 2, "lose_response": 2, "lose_database_connection": 2, "withdraw_rater": 1, "add_rater": 1, "add_items": 1, "pause_or_resume": 1,
    "close_or_reopen": 1, "expire_reservations": 2, "import_rating": 1,
}  # fmt: skip


def create_history(design: str, rule: str, seed: int) -> StudyHistory:
    """Create a study with six items, of which two may be versions of one transition, two ratings per item and a fifth of the items repeated."""
    run_factory.create_pool(16)
    sources = [
        {"cast": "offline", "perturbation": "none", "count": 5},
        {"cast": "offline", "perturbation": "obvious", "count": 1},
    ]
    study = study_factory.create_open_study(
        2 if design == "crossed" else 4, sources=sources, design=design, ratings_per_item=2, withdrawal=rule, seed=seed,
        practice=0, repeats=0.2, repeat_distance=2,
    )  # fmt: skip
    study_factory.fill_all_rater_places(study)
    return StudyHistory(study, random.Random(seed))


def check_finished(history: StudyHistory, design: str) -> None:
    """Check that every item has all of its ratings and that nobody has open assignments."""
    if design != "crossed":
        items = history.study.items.values_list("pk", flat=True)
        assert history.count_ratings() == dict.fromkeys(items, history.study.ratings_per_item)
    assignments = Assignment.objects.filter(rater__study=history.study, rater__withdrawn_at=None, rater__imported_as="")
    assert design == "pool" or not assignments.filter(rating=None, released_at=None).exists()


class AnyHistory(RuleBasedStateMachine):
    """The same actions in an order chosen by Hypothesis."""

    def __init__(self) -> None:
        super().__init__()
        self.all_of_it = transaction.atomic()
        self.all_of_it.__enter__()
        self.history: StudyHistory | None = None

    @initialize(
        design=st.sampled_from(["balanced", "pool", "crossed"]), rule=st.sampled_from(["keep", "drop"]), seed=SEEDS
    )
    def create_study(self, design: str, rule: str, seed: int) -> None:
        self.history, self.design = create_history(design, rule, seed % 1000), design

    @rule(act=st.sampled_from([name for name, weight in ACTION_WEIGHTS.items() for _ in range(weight)]), chance=SEEDS)
    def run_action(self, act: str, chance: int) -> None:
        assert self.history is not None
        self.history.run_action(act, chance)
        self.history.check_invariants()

    @precondition(lambda self: self.history is not None and not self.history.study.is_open)
    @rule()
    def reopen_study(self) -> None:
        assert self.history is not None
        self.history.run_action("pause_or_resume", 0)
        self.history.check_invariants()

    def teardown(self) -> None:
        """Finish the study: every item gets its ratings, and nobody has open assignments."""
        try:
            if self.history is not None:
                self.history.finish()
                check_finished(self.history, self.design)
        finally:
            transaction.set_rollback(True)
            self.all_of_it.__exit__(None, None, None)


@pytest.mark.parametrize("rule", ["keep", "drop"])
@pytest.mark.parametrize("design", ["balanced", "pool", "crossed"])
def test_study_keeps_every_answer_and_completes_every_item_whatever_happens(design: str, rule: str) -> None:
    history, rng, done = create_history(design, rule, SEED), random.Random(f"{design}/{rule}/{SEED}"), list[str]()
    actions = [
        *ACTION_WEIGHTS,
        *rng.choices(list(ACTION_WEIGHTS), list(ACTION_WEIGHTS.values()), k=STEPS - len(ACTION_WEIGHTS)),
    ]
    rng.shuffle(actions)
    try:
        for number, action in enumerate([*["answer_open_page"] * N_FIRST_ANSWERS, *actions]):
            if not history.study.is_open and rng.random() < P_REOPEN:
                history.run_action("pause_or_resume", 0)
            done.append(action)
            history.run_action(action, rng.getrandbits(32))
            history.check_invariants(readers=number % 5 == 0)
        assert len(history.accepted) > 5, "too few answers were saved for this test to mean anything"
        history.finish()
        check_finished(history, design)
    except AssertionError as error:
        error.add_note(f"after {', '.join(done)}")
        raise


@pytest.mark.thorough
def test_study_keeps_every_answer_in_a_hundred_random_histories() -> None:
    hypothesis_settings = settings(
        max_examples=100, stateful_step_count=STEPS, derandomize=True, deadline=None, database=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(AnyHistory, settings=hypothesis_settings)
