"""The error that ends a blinding audit without a report."""


class AuditError(ValueError):
    """The study cannot be audited now. The message is shown to people; it states the reason and what to do."""
