import hashlib
import json

from django.db import connections, migrations, models

NO_CONTEXT_SHA256 = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
PIECE = 1000


def hash_contexts(apps, schema_editor):
    """Those that hold nothing, which are nearly all, have their digest by the column's default."""
    for name in ("Item", "ImportedItem"):
        model = apps.get_model("ratings", name)
        found = model.objects.using(schema_editor.connection.alias).exclude(context={}).order_by("pk")
        table = schema_editor.quote_name(model._meta.db_table)
        last = 0
        while piece := list(found.filter(pk__gt=last).values_list("pk", "context")[:PIECE]):
            last = piece[-1][0]
            with connections[schema_editor.connection.alias].cursor() as cursor:
                hashed = [(_digest(context), key) for key, context in piece]
                cursor.executemany(f"UPDATE {table} SET context_sha256 = %s WHERE id = %s", hashed)


def _digest(context):
    """As ratings.blinding.payload_digest has it."""
    text = json.dumps(context, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Migration(migrations.Migration):
    """One index for another: a rater's places are found as quickly by the new one, and counted in it.

    What is shown beside an item gets a digest as the item itself has one.
    """

    dependencies = [("ratings", "0009_rating_room_fast")]
    operations = [
        migrations.AlterField(
            "assignment",
            "rater",
            models.ForeignKey(
                db_index=False,
                on_delete=models.PROTECT,
                related_name="assignments",
                to="ratings.rater",
            ),
        ),
        migrations.AddIndex(
            "assignment",
            models.Index(fields=["rater", "item", "occasion", "released_at", "surplus"], name="assignment_counts"),
        ),
        migrations.AddField("item", "context_sha256", models.CharField(default=NO_CONTEXT_SHA256, max_length=64)),
        migrations.AddField(
            "importeditem", "context_sha256", models.CharField(default=NO_CONTEXT_SHA256, max_length=64)
        ),
        migrations.RunPython(hash_contexts, migrations.RunPython.noop),
    ]
