"""Errors of the laboratory itself."""


class LabError(Exception):
    """Base class of the laboratory's errors."""


class CatalogueError(LabError):
    """Raised for an invalid data file. The message names the file, the entry, the field and what is allowed."""


class NoErrorFits(LabError):  # noqa: N818  # a result, not an error
    """Raised if no planted error of the requested type fits the action and its outcome."""


class ExperimentChanged(LabError):  # noqa: N818  # an event, not an error
    """Raised if the experiment's file was loaded again after the episode was created."""


class TaskChanged(LabError):  # noqa: N818  # as above
    """Raised if a replication task was loaded in another version after the code episode was created."""
