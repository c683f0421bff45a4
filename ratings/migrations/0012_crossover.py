from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    """Crossover studies: an assignment has a session, and a rater may rate one version of a pair in each session."""

    dependencies = [("ratings", "0011_reference")]
    operations = [
        migrations.RemoveConstraint("assignment", "assignment_one_version_per_rater"),
        migrations.RemoveConstraint("item", "item_payload_once_per_study"),
        migrations.AddField(
            "assignment",
            "session",
            models.PositiveSmallIntegerField(default=1, help_text="crossover studies: 1 or 2; 1 in all others"),
        ),
        migrations.AddField(
            "item",
            "screen",
            models.PositiveSmallIntegerField(
                default=0,
                help_text="crossover over screens: 1 or 2, the display arm that this version has; 0 in all others",
            ),
        ),
        migrations.AddField(
            "rater",
            "recalled_at",
            models.DateTimeField(
                blank=True,
                help_text="crossover: when the letter was sent that says the washout is over",
                null=True,
            ),
        ),
        migrations.AddConstraint(
            "assignment",
            models.UniqueConstraint(
                fields=["rater", "pair", "occasion", "session"], name="assignment_one_version_per_session"
            ),
        ),
        migrations.AddConstraint(
            "assignment", models.CheckConstraint(condition=Q(session__in=[1, 2]), name="assignment_session_1_or_2")
        ),
        migrations.AddConstraint(
            "item", models.UniqueConstraint(fields=["study", "payload_sha256", "screen"], name="item_once_per_screen")
        ),
    ]
