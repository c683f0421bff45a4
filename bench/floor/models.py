"""The only table that the floor writes to."""

from django.db import models


class Given(models.Model):
    """An answer, without protection against duplicates."""

    item = models.IntegerField()
    user = models.IntegerField()
    verdict = models.BooleanField()
    confidence = models.PositiveSmallIntegerField()
    submission_id = models.UUIDField()
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.verdict}, confidence {self.confidence}"
