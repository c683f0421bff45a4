from django.db import migrations


def _clear_placeholder(apps, schema_editor):
    """Clear "model", which stood for a kind nobody had named; what a person has named has a decision with that name."""
    named = apps.get_model("simulation", "TwinDecision").objects.filter(kind="model").values("twin")
    apps.get_model("simulation", "Twin").objects.filter(kind="model", rule="").exclude(pk__in=named).update(kind="")


class Migration(migrations.Migration):
    dependencies = [
        ("simulation", "0008_verdict_requests"),
    ]

    operations = [migrations.RunPython(_clear_placeholder, migrations.RunPython.noop)]
