"""The error that ends a blinding audit without a report."""


class AuditError(ValueError):
    """The study cannot be audited now; the message gives the reason and what to do, for people."""
