"""Invitation.seat is renamed to rater, and the raters of an account are `user.raters`. Data stays as it is."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("ratings", "0002_study_event_data"),
    ]

    operations = [
        migrations.RenameField("invitation", "seat", "rater"),
        migrations.AlterField(
            "rater",
            "user",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="raters",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
    ]
