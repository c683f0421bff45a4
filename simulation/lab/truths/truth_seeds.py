"""The seeds of hidden truths: the splits for training, validation and test, and the reference truth.

A truth is drawn from its own seed, apart from the seed of an episode's noise and barcodes. So two agents can be compared
on the same truths with different noise, and no truth of a split is drawn in another one.
"""

from collections.abc import Mapping

from simulation.lab.errors import LabError

REFERENCE = "reference"  # no seed: every draw has the `reference` value of the experiment file
TRAIN, VALIDATION, TEST = "train", "validation", "test"
# Disjoint ranges. Draws hash the seed, so neighbouring seeds give unrelated truths.
SPLITS: Mapping[str, range] = {
    TRAIN: range(0, 1_000_000),
    VALIDATION: range(1_000_000, 1_001_000),
    TEST: range(2_000_000, 2_001_000),
}
CHOICES = (REFERENCE, *SPLITS)


def get_truth_seed(split: str, index: int) -> int | None:
    """Return seed number `index` (from 0) of a split; after its last seed, the first follows again. None for the reference.

    Raises LabError if there is no such split.
    """
    if split == REFERENCE:
        return None
    if split not in SPLITS:
        raise LabError(f"The split is {split!r}; allowed: {', '.join(CHOICES)}")
    seeds = SPLITS[split]
    return seeds[index % len(seeds)]


def find_split(seed: int | None) -> str:
    """Return the split of a truth seed, or "" for a seed of no split."""
    if seed is None:
        return REFERENCE
    return next((name for name, seeds in SPLITS.items() if seed in seeds), "")
