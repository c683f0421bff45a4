"""The comparison of declared types of errors with what their visible differences say."""

from simulation.lab.planted_errors.error_type import Change
from simulation.twin_audit.error_types import count_error_types, iter_changes


def test_changes_are_read_from_materials_and_records_with_the_state_before_the_step(pair, transfer):
    twin = transfer(source_after="10 mL", note="2 × 1.200 mL")
    assert list(iter_changes(pair(twin))) == [
        Change("volume", "10 mL", "8 mL", "10 mL"),
        Change("Delivered from Buffer", "", "2 × 1.000 mL", "2 × 1.200 mL"),
    ]


def test_errors_that_look_like_the_other_type_are_counted_by_kind(pair, transfer):
    # 8 mL that became 10 mL are a quarter more; 80 mL are tenfold.
    small, large = transfer(source_after="10 mL"), transfer(source_after="80 mL")
    [obvious, subtle] = count_error_types(
        [pair(small), pair(large), pair(large), pair(small, error_type="subtle"), pair(transfer(), error_type="subtle")]
    )
    assert (obvious.obvious, obvious.subtle, obvious.undecided) == (2, 1, 0)
    assert obvious.disagreeing_kinds == (("slip", 1),) and not obvious.is_within_aim
    assert (subtle.obvious, subtle.subtle, subtle.undecided) == (0, 1, 1) and subtle.is_within_aim
