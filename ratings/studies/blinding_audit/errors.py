"""What stops a blinding audit."""


class AuditError(ValueError):
    """The study cannot be audited now; the message gives the reason and what to do, for people."""
