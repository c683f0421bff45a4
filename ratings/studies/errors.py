"""Errors of the life of a study. Their messages are written for people and shown on pages."""


class StudyError(ValueError):
    """The study does not allow this now; the message gives the reason, for people."""


class StudyClosed(StudyError):  # noqa: N818  # a state that raters are shown, not a fault
    """The study does not accept ratings, or no longer."""


class SealedError(PermissionError):
    """The study is not unblinded yet."""
