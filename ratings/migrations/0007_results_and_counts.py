"""The stored HTML of results, and the counts of ratings that count and of corrections in each rater's row."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Count, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

COUNTED = Q(answered_at__isnull=False, occasion=1, released_at__isnull=True, surplus=False)


def fill_columns(apps, schema_editor):
    """Count what every rater has rated and corrected."""
    alias = schema_editor.connection.alias
    assignments, events, raters = (
        apps.get_model("ratings", name).objects.using(alias) for name in ("Assignment", "RatingEvent", "Rater")
    )
    counted = assignments.filter(COUNTED, rater=OuterRef("pk")).order_by().values("rater")
    corrections = events.filter(kind="correction", assignment__rater=OuterRef("pk")).order_by()
    raters.update(counted_items=count(counted), corrections=count(corrections.values("assignment__rater")))
    # PostgreSQL alters no table while checks of its rows are deferred.
    schema_editor.connection.check_constraints()


def count(rows):
    return Coalesce(Subquery(rows.annotate(n=Count("pk")).values("n")), 0)


class Migration(migrations.Migration):
    dependencies = [("ratings", "0006_preparation_of")]

    operations = [
        migrations.AddField(
            model_name="rater",
            name="corrections",
            field=models.IntegerField(default=0, editable=False, help_text="how often an answer was corrected"),
        ),
        migrations.AddField(
            model_name="rater",
            name="counted_items",
            field=models.IntegerField(
                default=0, editable=False, help_text="ratings that count, unless the rater is dropped"
            ),
        ),
        migrations.CreateModel(
            name="RenderedResults",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "version",
                    models.CharField(help_text="digest of the templates and code that rendered it", max_length=16),
                ),
                ("content", models.BinaryField(help_text="compressed JSON of ratings.web.results.rendered_results")),
                (
                    "analysis",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="rendered", to="ratings.analysis"
                    ),
                ),
            ],
        ),
        migrations.RunPython(fill_columns, migrations.RunPython.noop),
    ]
