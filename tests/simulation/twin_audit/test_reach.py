"""How much of a step its error reaches: one replicate or all, records or materials."""

import pytest

from simulation.twin_audit.reach import ALL, ONE, find_scope, measure_reach


@pytest.mark.parametrize(
    ("changed", "scope"),
    [
        ({"wells": ("2 mL", "1 mL")}, ONE),
        ({"wells": ("2 mL", "2 mL")}, ALL),
        ({"note": "2 × 2.000 mL"}, ALL),  # the note is on both wells
        ({"source_after": "9 mL"}, ""),  # there is one source
    ],
)
def test_scope_is_read_from_the_replicates_that_an_error_changes(pair, transfer, changed, scope):
    assert find_scope(pair(transfer(**changed))) == scope


def test_reach_counts_scopes_records_and_kinds_of_science(pair, transfer):
    one, both = pair(transfer(wells=("2 mL", "1 mL"))), pair(transfer(wells=("2 mL", "2 mL")))
    note = pair(transfer(note="2 × 2.000 mL"), field="new_observations[0].value")
    [reach] = measure_reach([one, both, note, note._replace(kind="lethal_medium")])
    # Two notes and both wells against one well; every step has a note and no measurement.
    assert (reach.systematic, reach.single, reach.systematic_share) == (3, 1, 0.75) and not reach.is_within_aim
    assert (reach.measured, reach.noted, reach.without_records) == ((0, 0), (2, 4), 0)
    assert reach.scientific == 1
