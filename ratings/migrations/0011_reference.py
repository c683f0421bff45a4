from django.db import migrations, models
from django.db.models import Q

CHOICES = [
    ("planted", "planted"),
    ("unperturbed", "unperturbed"),
    ("declared wrong", "declared wrong"),
    ("declared right", "declared right"),
    ("", "not known"),
]
UNPERTURBED_WORDS = ("correct", "none", "0")


def fill_references(apps, schema_editor):
    """Derive each item's reference from what older releases stored: perturbation, truth, and what the import's line stated."""
    database = schema_editor.connection.alias
    imported = apps.get_model("ratings", "ImportedItem").objects.using(database)
    imported.filter(perturbation__in=("obvious", "subtle")).update(reference="planted")
    imported.filter(perturbation="none", truth=False).update(reference="declared wrong")
    imported.filter(perturbation="none", truth=True).update(reference="declared right")
    unperturbed = [
        key
        for key, record in imported.filter(reference="declared right").values_list("pk", "record").iterator()
        if str(record.get("truth", "")).strip().lower() in UNPERTURBED_WORDS
    ]
    for start in range(0, len(unperturbed), 500):
        imported.filter(pk__in=unperturbed[start : start + 500]).update(reference="unperturbed")

    sources = apps.get_model("ratings", "ItemSource").objects.using(database)
    sources.filter(perturbation__in=("obvious", "subtle")).update(reference="planted")
    sources.filter(perturbation="none", transition__isnull=False).update(reference="unperturbed")
    for reference, _ in CHOICES:
        if reference:
            sources.filter(Q(imported__reference=reference)).update(reference=reference)


class Migration(migrations.Migration):
    """What verdicts are compared with becomes a column of its own, apart from whether an outcome is right."""

    dependencies = [("ratings", "0010_scale")]
    operations = [
        migrations.AddField(
            "importeditem",
            "reference",
            models.CharField(
                blank=True, choices=CHOICES, default="", help_text="what verdicts are compared with", max_length=14
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            "itemsource",
            "reference",
            models.CharField(
                blank=True, choices=CHOICES, default="", help_text="what verdicts are compared with", max_length=14
            ),
            preserve_default=False,
        ),
        migrations.AlterField(
            "importeditem",
            "truth",
            models.BooleanField(blank=True, help_text="right by declaration; empty if unknown", null=True),
        ),
        migrations.AlterField(
            "itemsource",
            "truth",
            models.BooleanField(blank=True, help_text="whether the outcome is right; empty if unknown", null=True),
        ),
        migrations.RunPython(fill_references, migrations.RunPython.noop, elidable=True),
    ]
