"""The calculator of the rating page, and when raters reviewed their items. Studies opened earlier state that they had none."""

from typing import Any

from django.db import migrations, models

DRAFT = "draft"


def state_that_opened_studies_had_no_calculator(apps: Any, schema_editor: Any) -> None:
    """Write `display.calculator` into the documents that are frozen: their raters work, or worked, without it."""
    studies = apps.get_model("ratings", "Study").objects
    for study in studies.exclude(status=DRAFT).only("protocol").iterator():
        display = {**study.protocol.get("display", {}), "calculator": False}
        studies.filter(pk=study.pk).update(protocol={**study.protocol, "display": display})


class Migration(migrations.Migration):
    dependencies = [("ratings", "0011_invitation_wording")]

    operations = [
        migrations.AddField(
            model_name="rating",
            name="calculations",
            field=models.SmallIntegerField(
                blank=True, help_text="made with the calculator of the page; empty: not opened", null=True
            ),
        ),
        migrations.AddField(
            model_name="rater",
            name="reviewed_at",
            field=models.DateTimeField(
                blank=True, help_text="when the review of the own items was first opened, after unblinding", null=True
            ),
        ),
        migrations.RunPython(state_that_opened_studies_had_no_calculator, migrations.RunPython.noop, elidable=True),
    ]
