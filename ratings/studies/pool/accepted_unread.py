"""Whether errors of a study were let in unread. It is said of the study as a whole, never of an item."""

from ratings.models import ItemSource, Study
from simulation.models import Twin
from simulation.runs import vetting

SAID = "accepted unread by `make paper`: nobody has checked them"


def says_unread(study: Study) -> bool:
    """Return whether the study has planted errors that nobody has looked at; False before it is unblinded.

    The sources of a sealed study are read by no page about it.
    """
    if not study.is_unblinded:
        return False
    unread = vetting.accepted_unread(Twin.objects.all())
    return ItemSource.objects.filter(item__study=study, twin__in=unread.values("pk")).exists()
