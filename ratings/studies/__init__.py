"""The life of a study: draft, opening, raters, roles, stop rule, interim analysis, unblinding.

Each change of status is one transaction in `lifecycle` and one event in the study's log. `access` returns what a user
may open, or raises 404. `pool/` finds and freezes items. `assignments/` assigns items to raters who come late and
reassigns those of raters who leave. `progress/` counts. `blinding_audit/` searches for leaks.

May import: ratings.accounts, ratings.blinding, ratings.models, ratings.protocol, ratings.stats, simulation.casts,
simulation.jobs, simulation.lab, simulation.models, simulation.runs, wetbench_site.
"""

from ratings.studies.errors import SealedError, StudyClosed, StudyError

__all__ = ["SealedError", "StudyClosed", "StudyError"]
