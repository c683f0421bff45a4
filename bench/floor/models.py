"""The one table the floor writes to."""

from django.db import models


class Given(models.Model):
    """An answer, with nothing that keeps it from being there twice."""

    item = models.IntegerField()
    user = models.IntegerField()
    verdict = models.BooleanField()
    confidence = models.PositiveSmallIntegerField()
    submission_id = models.UUIDField()
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.verdict}, confidence {self.confidence}"
