"""Build the contexts of original steps again, for comparison with those of their twins."""

from collections import defaultdict
from collections.abc import Sequence

from ratings.blinding import Payload, blind_context
from ratings.models import ItemSource
from simulation.models import CatalogueEntry, Transition


class StepContexts:
    """The context of each step as it would be built now.

    `comparable` is False if the stored context of an original differs from it, because a goal has changed since.
    """

    def __init__(self, sources: Sequence[ItemSource]) -> None:
        # Loading whole episodes is worth it only if some arm shows contexts.
        self._wanted = any(source.item.context for source in sources)
        self._made: dict[int, Payload] = {}
        self._steps: dict[int, list[Transition]] = defaultdict(list)
        if self._wanted:
            self._load_steps({source.transition.episode_id for source in sources if source.transition})
        genuine = [s for s in sources if s.transition and s.twin is None]
        self.comparable = all(s.item.context == self.build_context(s.transition) for s in genuine if s.transition)

    def _load_steps(self, episodes: set[int]) -> None:
        controls = CatalogueEntry.objects.filter(kind="control").values("name")
        rows = Transition.objects.filter(episode__in=episodes).exclude(action_name__in=controls)
        for row in rows.select_related("episode__experiment").order_by("number"):
            self._steps[row.episode_id].append(row)

    def build_context(self, row: Transition) -> Payload:
        """Return the context of this step; empty if no item of the study has a context."""
        if not self._wanted:
            return {}
        if row.pk not in self._made:
            before = [other.step for other in self._steps[row.episode_id] if other.number < row.number]
            goal = next((step.episode.experiment.goal for step in self._steps[row.episode_id]), "")
            self._made[row.pk] = blind_context(goal, before)
        return self._made[row.pk]
