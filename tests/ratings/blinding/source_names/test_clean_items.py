"""Test that rule-made items of all experiments contain no source name, so none is held back."""

import pytest

from ratings.studies import lifecycle, pool, quarantine
from simulation.models import Experiment, Transition
from simulation.runs import create
from tests.support.laboratory_rows import store_laboratory
from tests.support.steps import run_to_end

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def test_source_name_check_puts_none_of_two_hundred_rule_based_items_into_quarantine() -> None:
    store_laboratory()
    experiments = list(Experiment.objects.all())
    run_to_end(create.create_episode_run(experiments, "offline", 1, seed=5))
    some = Transition.objects.filter(accepted=True, number__lt=5)
    run_to_end(create.create_twin_run(some, ["obvious", "subtle"], seed=6))
    sources = [{"cast": "offline", "perturbation": kind, "count": 1} for kind in ("none", "obvious", "subtle")]
    display = {"layouts": ["plain"], "context": [True], "by": "item", "marks": ["off"]}
    document = {
        "name": "All",
        "kind": "transition_plausibility",
        "sources": sources,
        "display": display,
        "seed": 1,
        "ratings_per_item": 1,
    }
    protocol = lifecycle.parse_protocol(document)
    look = pool.take_inventory(protocol, lifecycle.create_study(protocol))
    # A twin that repeats six words of its own explanation is held for that reason; it is not a clean item.
    assert [one.reasons for one in look.held if one.found.candidate.source[1] == "none"] == []
    assert [why for one in look.held for _, why in one.reasons if "explanation" not in why] == []
    assert (
        len(look.usable) >= 200 and len({found.candidate.experiment for found in look.usable}) == len(experiments) == 18
    )
    lexicon = quarantine.build_lexicon(None)
    evidence = [goal for goal in Experiment.objects.values_list("goal", flat=True) if lexicon.find_names(goal)]
    assert evidence == []
