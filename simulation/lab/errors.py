"""Errors of the laboratory itself."""


class LabError(Exception):
    """A part of the laboratory broke a rule: our fault or the simulator's, never the agent's."""


class CatalogueError(LabError):
    """A data file is invalid. The message names file, entry, field and what is allowed."""


class NoErrorFits(LabError):  # noqa: N818  # a result, not an error
    """No planted error of the requested type fits this action and outcome."""


class ExperimentChanged(LabError):  # noqa: N818  # an event, not an error
    """The experiment's file was loaded again after the episode was created."""
