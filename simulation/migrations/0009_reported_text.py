from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("simulation", "0008_worker_sandboxes"),
    ]

    operations = [
        migrations.RemoveField(
            model_name="codeepisode",
            name="reported",
        ),
        migrations.AddField(
            model_name="codeepisode",
            name="reported",
            field=models.TextField(
                blank=True, default="", help_text="the submitted text, JSON as it was written; empty: none"
            ),
            preserve_default=False,
        ),
    ]
