"""When each assignment was answered, the counts of each rater's items, and the stored HTML of items."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

WAITING = Q(answered_at__isnull=True, released_at__isnull=True)
ANSWERED = Q(answered_at__isnull=False)


def fill_columns(apps, schema_editor):
    """Fill the new columns from the ratings and assignments that exist."""
    alias = schema_editor.connection.alias
    assignments, ratings, raters = (
        apps.get_model("ratings", name).objects.using(alias) for name in ("Assignment", "Rating", "Rater")
    )
    submitted = ratings.filter(assignment=OuterRef("pk")).values("submitted_at")
    assignments.filter(rating__isnull=False).update(answered_at=Subquery(submitted))
    raters.update(answered_items=count(assignments, ANSWERED), waiting_items=count(assignments, WAITING))
    # PostgreSQL alters no table while checks of its rows are deferred.
    schema_editor.connection.check_constraints()


def count(assignments, condition):
    own = assignments.filter(condition, rater=OuterRef("pk")).order_by().values("rater")
    return Coalesce(Subquery(own.annotate(n=Count("pk")).values("n")), 0)


class Migration(migrations.Migration):
    dependencies = [("ratings", "0004_help_texts")]

    operations = [
        migrations.CreateModel(
            name="RenderedItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "item",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rendered",
                        to="ratings.item",
                    ),
                ),
                ("layout", models.CharField(max_length=8)),
                ("with_context", models.BooleanField()),
                ("marks", models.CharField(max_length=16)),
                (
                    "stage",
                    models.CharField(
                        help_text="first: before the balance sheet of the confirm layout; else final", max_length=8
                    ),
                ),
                (
                    "version",
                    models.CharField(help_text="digest of the templates and code that rendered it", max_length=16),
                ),
                ("html", models.TextField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("item", "layout", "with_context", "marks", "stage"), name="rendered_item_once_per_arm"
                    )
                ]
            },
        ),
        migrations.AddField(
            model_name="assignment",
            name="answered_at",
            field=models.DateTimeField(
                blank=True,
                editable=False,
                help_text="when its rating was submitted; empty: there is none",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="rater",
            name="answered_items",
            field=models.IntegerField(default=0, editable=False, help_text="assignments with a rating"),
        ),
        migrations.AddField(
            model_name="rater",
            name="waiting_items",
            field=models.IntegerField(default=0, editable=False, help_text="assignments still to be rated"),
        ),
        migrations.RunPython(fill_columns, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name="assignment",
            index=models.Index(condition=WAITING, fields=["rater", "position"], name="assignment_waiting"),
        ),
        migrations.AddIndex(
            model_name="assignment",
            index=models.Index(
                condition=ANSWERED, fields=["rater", "answered_at", "position"], name="assignment_answered"
            ),
        ),
    ]
