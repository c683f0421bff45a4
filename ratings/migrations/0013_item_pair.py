import hashlib
import json

from django.db import connections, migrations, models

KINDS = [
    (kind, kind)
    for kind in (
        "created", "edited", "duplicated", "opened", "paused", "resumed", "closed", "reopened", "unblinded",
        "guide", "invited", "reminded", "joined", "withdrawn", "erased", "simulated", "replanned", "items added",
        "items imported", "ratings imported", "quarantine", "audited", "looked", "exported", "member", "machine",
        "taken back",
    )
]  # fmt: skip
PIECE = 1000  # payloads held in memory at a time


def fill_pairs(apps, schema_editor):
    """Give every item the digest of what its versions share, as ratings.blinding.pair_digest makes it."""
    model = apps.get_model("ratings", "Item")
    found = model.objects.using(schema_editor.connection.alias).order_by("pk")
    table = schema_editor.quote_name(model._meta.db_table)
    last = 0
    while piece := list(found.filter(pk__gt=last).values_list("pk", "payload")[:PIECE]):
        last = piece[-1][0]
        with connections[schema_editor.connection.alias].cursor() as cursor:
            digests = [(digest_pair(payload), key) for key, payload in piece]
            cursor.executemany(f"UPDATE {table} SET pair_sha256 = %s WHERE id = %s", digests)


def digest_pair(payload):
    whole = payload.get("kind") == "evidence"
    shared = payload if whole else {"action": payload.get("action"), "before": payload.get("before")}
    text = json.dumps(shared, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Migration(migrations.Migration):
    """Versions of one thing are found in all studies by one indexed column, without reading their payloads."""

    dependencies = [("ratings", "0012_crossover")]
    operations = [
        migrations.AddField(
            "item",
            "pair_sha256",
            models.CharField(
                blank=True,
                default="",
                help_text="of the action and the materials before it: the same for all versions of one thing, in every study",
                max_length=64,
            ),
            preserve_default=False,
        ),
        migrations.AddIndex("item", models.Index(fields=["pair_sha256", "study"], name="item_pair_in_studies")),
        migrations.AlterField("studyevent", "kind", models.CharField(choices=KINDS, max_length=20)),
        migrations.RunPython(fill_pairs, migrations.RunPython.noop, elidable=True),
    ]
