"""Events of studies store data in place of sentences, and changes of roles have a table of their own."""

import sys
from collections import Counter

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

from ratings.migrations._study_event_sentences import read_member, read_sentence

PIECE = 500  # rows that are read and written at a time


def convert(apps, schema_editor):
    """Read every sentence into data, and fill the table of membership changes. Print what could not be read."""
    events, changes, users, studies = (
        apps.get_model(app, name).objects.using(schema_editor.connection.alias)
        for app, name in (
            ("ratings", "StudyEvent"), ("ratings", "MembershipChange"), ("auth", "User"), ("ratings", "Study")
        )
    )  # fmt: skip
    numbers = dict(users.values_list("username", "pk"))
    accounts = set(numbers.values())
    roles, unread, last = {}, Counter(), 0
    # In pieces by key and not by a cursor: SQLite does not define what a cursor returns of rows that change meanwhile.
    while rows := list(events.filter(pk__gt=last).order_by("pk")[:PIECE]):
        last, changed = rows[-1].pk, []
        for row in rows:
            if row.kind == "member":
                row.data = read_change(row, numbers, roles)
                if row.data is not None:
                    changed.append(make_change(changes.model, row, accounts))
            else:
                row.data = read_sentence(row.kind, row.detail)
            if row.data is None:
                row.data = {"text": row.detail}
                unread[row.study_id, row.kind] += 1
        events.bulk_update(rows, ["data"], batch_size=100)
        changes.bulk_create(changed)
    report(unread, dict(studies.values_list("pk", "slug")))
    # PostgreSQL alters no table while checks of its rows are deferred.
    schema_editor.connection.check_constraints()


def read_change(row, numbers, roles):
    """Return the data of an event about a member, or None if its sentence cannot be read.

    Sentences do not name a role that is taken away: it is the one that the account was given last in this study.
    """
    change = read_member(row.detail, numbers)
    if change is None:
        return None
    account, role, granted = change
    if granted:
        roles[row.study_id, account] = role
    else:
        role = roles.pop((row.study_id, account), "")
    return {"account": account, "role": role, "granted": granted}


def make_change(model, row, accounts):
    """Return the row of `MembershipChange` for an event. Its user is empty if the account was deleted."""
    account = row.data["account"] if row.data["account"] in accounts else None
    return model(
        study_id=row.study_id, user_id=account, role=row.data["role"], granted=row.data["granted"], at=row.at,
        by_id=row.by_id,
    )  # fmt: skip


def report(unread, slugs):
    """Print how many events of which study and kind are kept as text. They are shown, and grant nothing."""
    for (study, kind), number in sorted(unread.items(), key=str):
        sys.stderr.write(f"\n    {slugs[study]}: {number} of kind {kind!r} could not be read and kept as text")


class Migration(migrations.Migration):
    dependencies = [
        ("ratings", "0001_squashed"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="MembershipChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(
                        blank=True,
                        choices=[("admin", "study admin"), ("analyst", "analyst")],
                        help_text="empty where an early release took away a role and did not log which",
                        max_length=8,
                    ),
                ),
                ("granted", models.BooleanField(help_text="whether the role was given; otherwise it was taken away")),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="membership_changes",
                        to="ratings.study",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="membership_changes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["at", "pk"],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(granted=False) | ~Q(role=""), name="membership_change_granted_has_role"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="studyevent",
            name="data",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.RunPython(convert, migrations.RunPython.noop),
        migrations.RemoveField(model_name="studyevent", name="detail"),
    ]
