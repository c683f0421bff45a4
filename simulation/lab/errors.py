"""What can go wrong in the laboratory itself."""


class LabError(Exception):
    """A part of the laboratory broke a rule: our fault or the simulator's, never the agent's."""


class CatalogueError(LabError):
    """A data file is wrong. The message names file, entry, field and what is allowed."""


class NoErrorFits(LabError):  # noqa: N818  # an answer, not a fault
    """No planted error of the asked type fits this action and outcome."""


class ExperimentChanged(LabError):  # noqa: N818  # what happened, in the house's words
    """The experiment's file was loaded anew after the episode was ordered."""
