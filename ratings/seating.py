"""Seats of an open study: free ones, late ones, those given back."""

from django.db import transaction

from ratings import opening
from ratings.models import Rater, Study
from ratings.studies import log


@transaction.atomic
def replan(study: Study, raters: int) -> None:
    """Give what nobody has been asked to rate yet to `raters` new seats in place of the free ones."""
    free = free_seats(study)
    opening.deal_again(study, free, raters)
    log(study, "replanned", None, f"{len(free)} free seats became {raters}")


def free_seats(study: Study) -> list[Rater]:
    """Seats that nobody was invited to and nobody simulates, in order."""
    return list(study.raters.filter(invited_at__isnull=True, simulated=False, started_at__isnull=True).order_by("pk"))
