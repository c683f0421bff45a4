"""The reference label: what the verdicts on an item are compared with.

It states what was done to the item or, if that is unknown, what its import declares. Detection asks whether raters
distinguish outcomes with a planted error from unperturbed ones. What was done is known of every item with a known
origin, whichever model simulated it. Whether an unperturbed outcome is right is another property (`truth`).
"""

from typing import Final

PLANTED: Final = "planted"
UNPERTURBED: Final = "unperturbed"
DECLARED_WRONG: Final = "declared wrong"
DECLARED_RIGHT: Final = "declared right"
UNKNOWN: Final = ""

_ALL: Final = (PLANTED, UNPERTURBED, DECLARED_WRONG, DECLARED_RIGHT, UNKNOWN)
CHOICES: Final = [(name, name or "not known") for name in _ALL]
WITH_ERROR: Final = (PLANTED, DECLARED_WRONG)
WITHOUT_ERROR: Final = (UNPERTURBED, DECLARED_RIGHT)
STATED: Final = (PLANTED, UNPERTURBED)  # the references of items whose perturbation is stated


def find_reference(perturbation: str | None, truth: bool | None) -> str:
    """Return the reference of an item with this perturbation (none, obvious, subtle; None: not stated) and truth.

    A stated perturbation decides. A truth alone is a declaration. Without either the reference is unknown.
    """
    # A stated perturbation records what was done; a truth is only declared.
    if perturbation is not None:
        return UNPERTURBED if perturbation == "none" else PLANTED
    if truth is None:
        return UNKNOWN
    return DECLARED_RIGHT if truth else DECLARED_WRONG


def reference_to_label(reference: str) -> int | None:
    """Return 1 for an item without an error, 0 for one with an error, None if unknown."""
    return 0 if reference in WITH_ERROR else 1 if reference in WITHOUT_ERROR else None


# An unknown origin must not appear as "none": files would then count the item as unperturbed.
def public_perturbation(perturbation: str, reference: str) -> str | None:
    """Return the perturbation for files and programs: None if nobody stated what was done to the item."""
    return perturbation if reference in STATED else None


def name_contrast_group(perturbation: str, reference: str) -> str:
    """Return the group of an item in contrasts: its perturbation if stated, else its reference label or "not known"."""
    return perturbation if reference in STATED else reference or "not known"


def is_declared(reference: str) -> bool:
    """Return whether the reference is based on a declared truth instead of what was done to the item."""
    return reference in (DECLARED_WRONG, DECLARED_RIGHT)
