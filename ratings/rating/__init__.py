"""The rating loop: which item a rater gets next, and how an answer is saved.

No answer is lost or counted twice, and every version of it is kept. In pool studies an item is claimed when the rater
requests the next item.

May import: ratings.models, ratings.protocol, ratings.studies, wetbench_site.
"""

from ratings.rating.answering import Answer, RateResult

__all__ = ["Answer", "RateResult"]
