"""Plain names for tables and columns. The rows stay as they are."""

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
        migrations.RenameModel("FirstLook", "InitialRating"),
        migrations.AlterField(
            "initialrating",
            "assignment",
            models.OneToOneField(
                on_delete=django.db.models.deletion.PROTECT, related_name="initial_rating", to="ratings.assignment"
            ),
        ),
        migrations.RemoveConstraint("initialrating", "first_look_1_to_5"),
        migrations.AddConstraint(
            "initialrating",
            models.CheckConstraint(
                condition=models.Q(("confidence__gte", 1), ("confidence__lte", 5)), name="initial_rating_1_to_5"
            ),
        ),
        migrations.RenameModel("Draft", "UnsavedAnswer"),
        migrations.AlterField(
            "unsavedanswer",
            "assignment",
            models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE, related_name="unsaved_answer", to="ratings.assignment"
            ),
        ),
        migrations.RenameField("assignment", "lease_until", "reserved_until"),
        migrations.RenameModel("Drawing", "StoredFigure"),
        migrations.RenameField("analysis", "mark", "state_digest"),
        # Renaming a field leaves its name in the index, so the index is built again.
        migrations.RemoveIndex("analysis", "ratings_ana_study_i_874e5d_idx"),
        migrations.RenameField("analysis", "made_at", "created_at"),
        migrations.AlterModelOptions(
            "analysis", options={"ordering": ["-created_at", "-pk"], "verbose_name_plural": "analyses"}
        ),
        migrations.AddIndex(
            "analysis", models.Index(fields=["study", "created_at"], name="ratings_ana_study_i_616e9a_idx")
        ),
    ]
