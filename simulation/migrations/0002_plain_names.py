"""Plain names for columns. The rows stay as they are."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("simulation", "0001_squashed")]

    operations = [
        *(migrations.RenameField(model, "rung_at", "notified_at") for model in ("episode", "twin", "job")),
        migrations.RenameField("job", "said", "message"),
        # The constraint names the column, so it is created again.
        migrations.RemoveConstraint("twin", "twin_done_has_outcome"),
        migrations.RenameField("twin", "why", "explanation"),
        migrations.AddConstraint(
            "twin",
            models.CheckConstraint(
                condition=~Q(status="done")
                | (Q(outcome__isnull=False) & (~Q(explanation="") | Q(perturbation="none"))),
                name="twin_done_has_outcome",
            ),
        ),
    ]
