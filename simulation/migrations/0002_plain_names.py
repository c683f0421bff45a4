"""`rung_at` is renamed to `notified_at`: when a worker was last notified of the row."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("simulation", "0001_squashed")]

    operations = [migrations.RenameField(model, "rung_at", "notified_at") for model in ("episode", "twin", "job")]
