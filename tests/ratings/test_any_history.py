"""Model-based: a seeded random walk over everything that can happen to a study, with its promises checked at each step.

In the spirit of Hypothesis' RuleBasedStateMachine: the same seed walks the same way, and the steps are told on failure.
"""

import random

import factories
import pytest
from any_history import History

from ratings.models import Assignment

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

STEPS = 40


def begin(design: str, rule: str, seed: int) -> History:
    """Six items of which two may be versions of one thing, two ratings each, a fifth of them twice."""
    factories.pool(16)
    sources = [
        {"cast": "offline", "perturbation": "none", "count": 5},
        {"cast": "offline", "perturbation": "obvious", "count": 1},
    ]
    study = factories.open_study(
        2 if design == "crossed" else 4, sources=sources, design=design, ratings_per_item=2, withdrawal=rule, seed=seed,
        practice=0, repeats=0.2, repeat_distance=2,
    )  # fmt: skip
    factories.seat_all(study)
    return History(study, random.Random(f"{design}/{rule}/{seed}"))


def walk(history: History) -> None:
    steps: list[str] = []
    try:
        for _ in range(STEPS):
            steps.append(history.step())
            history.check()
        history.finish()
    except AssertionError as error:
        error.add_note(f"after {', '.join(steps)}")
        raise


@pytest.mark.parametrize(
    ("design", "rule", "seed"),
    [
        ("balanced", "keep", 1),
        pytest.param("balanced", "drop", 2, marks=pytest.mark.one_database),
        pytest.param("pool", "keep", 3, marks=pytest.mark.one_database),
        ("pool", "drop", 4),
    ],
)
def test_whatever_happens_answers_are_kept_and_each_item_ends_with_as_many_as_it_wants(
    design: str, rule: str, seed: int
) -> None:
    history = begin(design, rule, seed)
    walk(history)
    assert len(history.accepted) > 5
    items = history.study.items.values_list("pk", flat=True)
    assert history.given() == dict.fromkeys(items, history.study.ratings_per_item)


@pytest.mark.parametrize("rule", [pytest.param("keep", marks=pytest.mark.one_database), "drop"])
def test_whatever_happens_where_everybody_rates_everything_nothing_is_lost_and_nobody_left_out(rule: str) -> None:
    history = begin("crossed", rule, 1)
    walk(history)
    places = Assignment.objects.filter(rater__study=history.study, rater__withdrawn_at=None, rater__imported_as="")
    assert not places.filter(rating=None).exists()
