"""Name the items that exist."""

from django.db import migrations

from ratings.blinding.item_names import name_item

BATCH = 500  # items, of which each has some ten kilobytes


def name_items(apps, schema_editor):
    """Name the items without a name, each batch in its own transaction. Interrupted, it continues at the next start."""
    items = apps.get_model("ratings", "Item").objects.using(schema_editor.connection.alias)
    last = 0
    while batch := list(items.filter(pk__gt=last, name="").only("payload").order_by("pk")[:BATCH]):
        for item in batch:
            item.name = name_item(item.payload)
        items.bulk_update(batch, ["name"])
        last = batch[-1].pk


class Migration(migrations.Migration):
    # Without one long transaction: the rows stay free for raters while payloads are read.
    atomic = False

    dependencies = [("ratings", "0009_item_name")]

    operations = [migrations.RunPython(name_items, migrations.RunPython.noop)]
