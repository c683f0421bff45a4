"""The life of a study: draft, opening, raters, roles, stop rule, interim analysis, unblinding.

Each change of status is one transaction in `lifecycle` and one event in the study's log. `access` returns what a user
may open, or raises 404. `pool`, `quarantine` and `freeze` find and freeze items. `reassign` and `running_raters` assign
items to raters who come late and reassign those of raters who leave. `progress` counts. `blinding_audit/` searches for
leaks.

May import: ratings.accounts, ratings.blinding, ratings.models, ratings.protocol, ratings.stats, simulation.casts,
simulation.jobs, simulation.lab, simulation.models, simulation.runs, wetbench_site.
"""


class StudyError(ValueError):
    """The state of the study does not allow this now. The message gives the reason and is shown to people."""


class StudyClosed(StudyError):  # noqa: N818  # a state that raters are shown, not a fault
    """The study does not accept ratings now."""


class SealedError(PermissionError):
    """The study is not unblinded yet."""
