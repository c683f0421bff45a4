"""Errors that the life of a study raises. Their messages are written for people and shown on pages."""


class StudyError(ValueError):
    """The study does not allow this now; the message says why, for people."""


class StudyClosed(StudyError):  # noqa: N818  # a state the rater is told about, not a fault
    """The study takes no ratings (any more)."""


class SealedError(PermissionError):
    """The study is not unblinded yet."""
