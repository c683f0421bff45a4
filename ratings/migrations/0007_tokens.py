import uuid

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ratings", "0006_analyses"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("name", models.CharField(max_length=60)),
                ("token_sha256", models.CharField(max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list, help_text="names of ratings.api.scopes")),
                (
                    "limited",
                    models.BooleanField(
                        default=False, help_text="reads `studies` alone, and nothing of the laboratory"
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, help_text="to the minute", null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("studies", models.ManyToManyField(blank=True, related_name="+", to="ratings.study")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="api_token_expires_after_made",
                    )
                ],
            },
        ),
    ]
