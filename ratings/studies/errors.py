"""Errors of the life of a study. Their messages are written for people and shown on pages."""


class StudyError(ValueError):
    """The state of the study does not allow this now. The message gives the reason and is shown to people."""


class StudyClosed(StudyError):  # noqa: N818  # a state that raters are shown, not a fault
    """The study does not accept ratings now."""


class SealedError(PermissionError):
    """The study is not unblinded yet."""
