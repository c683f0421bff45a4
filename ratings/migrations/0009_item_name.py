"""The column for the name of each item: action and first material."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ratings", "0008_layout_of_rendered_items")]

    operations = [
        migrations.AddField(
            model_name="item",
            name="name",
            field=models.CharField(
                blank=True,
                default="",
                help_text="action and first material, by ratings.blinding.item_names: the same for all versions of a pair",
                max_length=120,
            ),
        ),
    ]
