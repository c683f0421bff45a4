"""The shares of sufficient records by the number of hidden steps."""

import json

import pytest
from django.core.management import CommandError, call_command

from ratings.management.commands.masking_curve import compute_curve
from simulation.lab.hidden_steps.masks import ProtocolMask
from simulation.models import Episode, EvidenceReview
from tests.support import run_factory

pytestmark = pytest.mark.django_db


def test_masking_curve_counts_every_ended_attempt_and_leaves_failed_ones_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = [((), "submitted", True), ((3,), "submitted", True), ((3,), "submitted", False), ((4,), "truncated", None),
             ((4,), "cancelled", None), ((4,), "queued", None)]  # fmt: skip
    for number, (hidden, status, sufficient) in enumerate(cases, start=1):
        mask = ProtocolMask(hidden)
        episode = run_factory.create_episode(replicate=number, status=status)
        Episode.objects.filter(pk=episode.pk).update(mask=mask.to_json(), mask_key=mask.key)
        if sufficient is not None:
            EvidenceReview.objects.create(episode=episode, classifier="judge", sufficient=sufficient, verdict={})
    run = run_factory.create_episode(replicate=20).run  # the last one without a protocol
    points = compute_curve([run.pk])
    found = [(point.experiment, point.hidden, point.rate.k, point.rate.n) for point in points]
    assert found == [("caffeine", 0, 1, 1), ("caffeine", 1, 1, 3), ("all", 0, 1, 1), ("all", 1, 1, 3)]
    # Wilson's interval of 1 of 3 by hand: centre (1/3 + 3.8415/6) / (1 + 3.8415/3) = 0.4270, half width 0.3654.
    assert points[1].rate.low == pytest.approx(0.0615, abs=5e-4) and points[1].rate.high == pytest.approx(
        0.7923, abs=5e-4
    )
    call_command("masking_curve", str(run.code), "--json")
    assert json.loads(capsys.readouterr().out)[1]["share"] == pytest.approx(1 / 3)


def test_masking_curve_of_a_run_without_hidden_steps_exits_with_2() -> None:
    with pytest.raises(CommandError, match="no episode with hidden steps") as refused:
        call_command("masking_curve", str(run_factory.create_run().code))
    assert refused.value.returncode == 2
