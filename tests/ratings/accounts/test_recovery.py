"""Tests that the analysis recovers the known skill of simulated raters, with the same numbers on page, terminal and archive."""

import html
import io
import json
import re
import sys
from collections.abc import Iterator
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse
from scipy.special import ndtr, ndtri

from ratings.exchange.archive import contents
from ratings.models import Analysis, Study
from ratings.raters import simulated_raters
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.tables import list_records
from ratings.stats import Estimate, summary_text
from ratings.studies import lifecycle
from ratings.web.results import rendered_results, result_sections
from simulation.models import Twin
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db

LOCATED = 0.7  # share of detected errors with a mark on the planted row
OBVIOUS, SUBTLE, SPECIFICITY = 0.85, 0.45, 0.85  # shares called right: of obvious errors, subtle errors, genuine items
CASTS = ("offline", "offline-lapses")
CALLED = {
    "offline": 1 - SPECIFICITY,
    "offline-lapses": 1 - SPECIFICITY,
    "obvious error": OBVIOUS,
    "subtle error": SUBTLE,
}
SOURCES = {
    "offline": {"cast": "offline", "perturbation": "none", "count": 10},
    "offline-lapses": {"cast": "offline-lapses", "perturbation": "none", "count": 10},
    "obvious error": {"cast": "offline", "perturbation": "obvious", "count": 10},
    "subtle error": {"cast": "offline-lapses", "perturbation": "subtle", "count": 10},
}
NAMES = {"offline": "offline", "offline-lapses": "offline-lapses", "obvious error": "offline, obvious error",
         "subtle error": "offline-lapses, subtle error"}  # fmt: skip


class Recovered(NamedTuple):
    """An analysis, and the same results from the terminal, the page and the archive."""

    analysis: Analysis
    results: list[Estimate]
    terminal: list[dict[str, Any]]
    page: str
    archive: dict[str, str]
    archived: list[dict[str, Any]]

    def one(self, stat: str, **args: Any) -> Estimate:
        return next(row for row in self.results if row.stat == stat and row.args == args)


@pytest.fixture(scope="module")
def recovered(django_db_setup: None, django_db_blocker: Any) -> Iterator[Recovered]:
    """Simulate, unblind and analyse one study for all tests of this module."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield analyse_simulated_study()
        transaction.set_rollback(True)


def analyse_simulated_study() -> Recovered:
    for place, cast in enumerate(CASTS):
        run_factory.create_pool(44, (f"caffeine {place}", f"zebrafish {place}"), cast)
    Twin.objects.update(field="new_materials[0].properties.volume")
    marks = {"marks": ["if_not_plausible"]}
    study = study_factory.create_open_study(
        6, sources=list(SOURCES.values()), design="crossed", ratings_per_item=6, display=marks
    )
    boss = User.objects.create_user("boss", is_staff=True)
    Study.objects.filter(pk=study.pk).update(created_by=boss)
    simulated_raters.simulate_raters(study, 6, OBVIOUS, SUBTLE, SPECIFICITY, located=LOCATED, seed=1)
    lifecycle.close_and_unblind(study, boss)
    study.refresh_from_db()
    made = store.compute_analysis(study, Filters())
    client = Client()
    client.force_login(boss)
    addresses = [reverse("ratings:study", args=[study.slug])]
    addresses += [reverse("ratings:results", args=[study.slug, slug]) for slug in result_sections.TITLES]
    page = "\n".join(client.get(address).content.decode() for address in addresses)
    wanted = {"results.json", "ratings.csv", "tables/rates.csv", "tables/raters.csv", "methods.txt"}
    archive = {
        entry.name: read_entry(entry) for entry in contents.list_unblinded_files(study, made) if entry.name in wanted
    }
    results = [Estimate.from_dict(row) for row in made.document["results"]]
    return Recovered(
        analysis=made,
        results=results,
        terminal=run_agreement_command(run_command("export_ratings", study.slug)),
        page=extract_text(page),
        archive=archive,
        archived=run_agreement_command(archive["ratings.csv"]),
    )


def read_entry(entry: Any) -> str:
    return "".join(piece if isinstance(piece, str) else piece.decode() for piece in entry.pieces())


def run_command(command: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(command, *arguments, stdout=out)
    return out.getvalue()


def run_agreement_command(ratings: str) -> list[dict[str, Any]]:
    """Return the output of `agreement - --json` for this file on its standard input."""
    given = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(ratings.encode()), "utf-8", newline="")
    try:
        found: list[dict[str, Any]] = json.loads(run_command("agreement", "-", "--json"))
    finally:
        sys.stdin = given
    return found


def extract_text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


# What the simulated raters are, over endlessly many raters and items: an item's trace of error is normal around
# z(share called) * sqrt(1 + 0.35^2), with 0.6 of its variance shared by all raters; a rater calls what lies above a
# threshold that is normal with standard deviation 0.35 (ratings/raters/simulated_raters.py).
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
THRESHOLDS = 0.35 * NODES
SPREAD = sqrt(1 + 0.35**2)


def true_kappa() -> float:
    """Mean of Cohen's kappa over pairs of raters, with equally many items of the four sources. Given the shared part of the perception, both verdicts are independent."""
    calls = np.zeros((len(NODES), len(CALLED), len(NODES)))  # threshold, source, shared part
    for at, share in enumerate(CALLED.values()):
        trace = ndtri(share) * SPREAD - THRESHOLDS[:, None] + sqrt(0.6) * NODES
        calls[:, at] = ndtr(trace / sqrt(0.4))
    both = np.einsum("jsn,ksn,n->jk", calls, calls, WEIGHTS) / len(CALLED)
    one = np.einsum("jsn,n->j", calls, WEIGHTS) / len(CALLED)
    agreed = 1 + 2 * both - one[:, None] - one
    chance = np.outer(one, one) + np.outer(1 - one, 1 - one)
    return float(WEIGHTS @ ((agreed - chance) / (1 - chance)) @ WEIGHTS)


def true_area(called: float) -> float:
    """The mean over raters of P(a genuine item's signed rating is above an error's) + half of P(they are equal)."""
    steps = np.array([0.3, 0.7, 1.2, 1.9])
    cuts = np.concatenate([-steps[::-1], [0.0], steps])
    chances = []
    for share in (1 - SPECIFICITY, called):
        below = ndtr(cuts - (ndtri(share) * SPREAD - THRESHOLDS)[:, None])
        chances.append(
            np.diff(below, axis=1, prepend=0, append=1)
        )  # of the ten distances: far below the threshold first
    genuine, error = chances
    lower = np.cumsum(genuine, axis=1) - genuine / 2
    return float(WEIGHTS @ (error * lower).sum(axis=1))


def contains(row: Estimate, true: float) -> bool:
    return row.low is not None and row.high is not None and row.low <= true <= row.high


def test_recovered_study_has_forty_items_and_six_raters_labelled_as_simulated(recovered) -> None:
    rate = recovered.one("plausibility_rate")
    assert (rate.n["items"], rate.n["raters"], rate.n["ratings"]) == (40, 6, 240)
    assert {row["n"] for row in list_records(recovered.analysis.document["tables"]["rates"])} == {60}
    assert recovered.analysis.document["composition"]["simulated"]["raters"] == 6
    assert "simulated" in recovered.page.lower() and "simulated" in recovered.archive["methods.txt"]


@pytest.mark.parametrize("source", SOURCES)
def test_recovered_rates_have_intervals_that_contain_the_configured_shares(recovered, source) -> None:
    row = recovered.one("plausibility_rate", source=NAMES[source])
    assert contains(row, 1 - CALLED[source])
    # and is narrow enough to exclude a rater who calls the opposite share
    assert not contains(row, CALLED[source]) or source == "subtle error"


def test_recovered_sensitivity_and_specificity_have_intervals_with_the_configured_values(recovered) -> None:
    assert contains(recovered.one("sensitivity", source=NAMES["obvious error"]), OBVIOUS)
    assert contains(recovered.one("sensitivity", source=NAMES["subtle error"]), SUBTLE)
    assert contains(recovered.one("specificity"), SPECIFICITY)


def test_recovered_d_prime_has_an_interval_with_the_configured_value(recovered) -> None:
    # z(sensitivity) + z(specificity), both times sqrt(1 + 0.35^2) = 1.0595: 0.9649 and (-0.1257 + 1.0364) * 1.0595; the
    # thresholds cancel. 2.196 of obvious errors, 0.965 of subtle ones.
    for source, called, true in (("obvious error", OBVIOUS, 2.196), ("subtle error", SUBTLE, 0.965)):
        assert true == pytest.approx((ndtri(called) + ndtri(SPECIFICITY)) * SPREAD, abs=1e-3)
        row = recovered.one("dprime", source=NAMES[source], mean_over="raters")
        assert contains(row, true) or "no interval is reliable" in row.reason
    assert recovered.one("dprime", source=NAMES["subtle error"], mean_over="raters").low is not None


def test_recovered_localisation_has_the_configured_value_on_page_and_terminal(recovered) -> None:
    row = recovered.one("localisation")
    assert contains(row, LOCATED) and not contains(row, 0.5)
    assert row.n["ratings"] > 50 and row.n["untold"] == 0
    assert row.to_dict() in recovered.terminal
    assert "Localisation: called errors with a mark on the planted row" in recovered.page


def test_recovered_area_for_new_raters_has_an_interval_with_the_configured_value(recovered) -> None:
    obvious, subtle = (recovered.one("mrmc_mean_auc", source=NAMES[name]) for name in ("obvious error", "subtle error"))
    assert contains(obvious, true_area(OBVIOUS)) and contains(subtle, true_area(SUBTLE))
    # The intervals are narrow enough to exclude raters without skill.
    assert not contains(obvious, 0.5) and not contains(subtle, 0.5)


def test_recovered_kappa_for_new_raters_has_an_interval_with_the_configured_value(recovered) -> None:
    row = recovered.one("avg_pairwise_kappa", min_overlap=20, target="new raters")
    assert contains(row, true_kappa())
    # Raters without a shared perception would have a kappa of 0.
    assert not contains(row, 0.0)


def test_terminal_and_archive_have_the_same_numbers_as_the_analysis(recovered) -> None:
    told = [row.to_dict() for row in recovered.results]
    assert recovered.terminal == told
    assert recovered.archived == told
    assert json.loads(recovered.archive["results.json"]) == recovered.analysis.document


def test_results_page_has_the_same_numbers_as_the_analysis(recovered) -> None:
    told = 0
    for section in summary_text.build_sections(recovered.results):
        assert section.title in recovered.page
        shown = section.lines[: rendered_results.MAX_SECTION_ROWS]
        # A column without content is not drawn.
        no_interval = "–" if any(line.interval for line in shown) else ""
        for line in shown:
            name = line.name.replace("Share of verdict 1", "Share rated plausible")
            said = " ".join((name, line.scope or "all", line.value, line.interval or no_interval))
            assert " ".join(said.split()) in recovered.page
            told += 1
    assert told > 200
    numbers = result_sections.build_key_numbers(recovered.analysis.document)
    assert len(numbers) == 5
    for one in numbers:
        target = f" {one.target}" if one.target else ""
        said = f"{one.name} {one.value}" + (f" 95% interval{target}: {one.interval}" if one.interval else "")
        assert said in recovered.page


def test_archive_tables_are_the_tables_of_the_analysis(recovered) -> None:
    rows = list_records(recovered.analysis.document["tables"]["rates"])
    lines = recovered.archive["tables/rates.csv"].splitlines()[1:]
    assert len(lines) == len(rows) == 4
    for row, line in zip(rows, lines, strict=True):
        assert {f'"{row["rate"]!r}"', f'"{row["low"]!r}"'} <= set(line.split(","))
