"""What each item's verdicts are compared with: what was done to the item, or else what its import declares.

Detection asks whether raters tell outcomes with a planted error from unperturbed ones. That is known of every item whose
origin is known, whoever simulated it. Whether an unperturbed outcome is right is another property (`truth`).
"""

from typing import Final

PLANTED: Final = "planted"
UNPERTURBED: Final = "unperturbed"
DECLARED_WRONG: Final = "declared wrong"
DECLARED_RIGHT: Final = "declared right"
UNKNOWN: Final = ""

CHOICES: Final = [
    (PLANTED, "planted"),
    (UNPERTURBED, "unperturbed"),
    (DECLARED_WRONG, "declared wrong"),
    (DECLARED_RIGHT, "declared right"),
    (UNKNOWN, "not known"),
]
WITH_ERROR: Final = (PLANTED, DECLARED_WRONG)
WITHOUT_ERROR: Final = (UNPERTURBED, DECLARED_RIGHT)


def find_reference(perturbation: str | None, truth: bool | None) -> str:
    """Return the reference of an item with this perturbation (none, obvious, subtle; None: not stated) and truth.

    The perturbation decides where it is stated; a truth alone is a declaration; without either the reference is unknown.
    """
    if perturbation is not None:
        return UNPERTURBED if perturbation == "none" else PLANTED
    if truth is None:
        return UNKNOWN
    return DECLARED_RIGHT if truth else DECLARED_WRONG


def read_label(reference: str) -> int | None:
    """Return 1 for an item without an error, 0 for one with an error, None where that is not known."""
    return 0 if reference in WITH_ERROR else 1 if reference in WITHOUT_ERROR else None


def show_perturbation(perturbation: str, reference: str) -> str | None:
    """Return the perturbation as files and programs are told it: None where nobody stated what was done to the item."""
    return perturbation if reference in (PLANTED, UNPERTURBED) else None


def name_kind(perturbation: str, reference: str) -> str:
    """Return what an item is in contrasts: the planted error or none, or what else its reference rests on."""
    return perturbation if reference in (PLANTED, UNPERTURBED) else reference or "not known"


def is_declared(reference: str) -> bool:
    """Whether the reference rests on a declared truth and not on what was done to the item."""
    return reference in (DECLARED_WRONG, DECLARED_RIGHT)
