"""Rating: choose a rater's next item and store the answer.

No answer is lost or counted twice, and every revision is stored. In pool studies an item is claimed when the rater
requests the next item.

May import: ratings.models, ratings.protocol, ratings.studies, wetbench_site.
"""

from ratings.rating.submit import Answer, SubmissionResult

__all__ = ["Answer", "SubmissionResult"]
