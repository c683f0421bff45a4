"""Find out whether planted errors of a study were accepted unreviewed. This is stated for the study as a whole, never
for an item.
"""

from ratings.models import ItemSource, Study
from simulation.models import Twin
from simulation.runs import vetting

UNREVIEWED_NOTE = "accepted unread by `make paper`: nobody has checked them"


def has_unreviewed_errors(study: Study) -> bool:
    """Return whether the study has planted errors that nobody has reviewed; False before it is unblinded."""
    # No page about a sealed study reads its sources.
    if not study.is_unblinded:
        return False
    unreviewed = vetting.filter_accepted_unread(Twin.objects.all())
    return ItemSource.objects.filter(item__study=study, twin__in=unreviewed.values("pk")).exists()
