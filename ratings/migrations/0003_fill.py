"""What the rows of earlier releases have in the new columns; free seats lose the placeholder accounts they no longer need."""

import uuid
from collections import defaultdict

from django.db import migrations


def fill(apps, schema_editor):
    rater_model = apps.get_model("ratings", "Rater")
    users = apps.get_model("auth", "User")
    for rater in rater_model.objects.all():
        rater.code = uuid.uuid4()
        digits = rater.label[1:]
        rater.number = int(digits) if digits.isascii() and digits.isdigit() else rater.pk
        if rater.started_at and not rater.simulated:
            rater.consented_at = rater.practised_at = rater.started_at
            rater.guide_seen = 1
        else:
            placeholder, rater.user_id = rater.user_id, None
            if rater.started_at is None:
                rater.invited_at = rater.invited_at if _invite(apps, rater, placeholder) else None
        rater.save()
        if rater.user_id is None and placeholder:
            users.objects.filter(pk=placeholder, username__startswith="rater-", is_staff=False).delete()
    _slots(apps)
    _events(apps)
    studies, guides = apps.get_model("ratings", "Study"), apps.get_model("ratings", "GuideVersion")
    guides.objects.bulk_create(guides(study=study, number=1, text=study.guide) for study in studies.objects.all())


def _invite(apps, rater, placeholder):
    """The links of a seat that nobody took yet, as invitations with the same tokens; whether one of them still leads on."""
    links = apps.get_model("ratings", "SignInLink").objects.filter(user_id=placeholder, purpose="rater")
    invitation, kept = apps.get_model("ratings", "Invitation"), ("created_at", "expires_at", "used_at", "revoked_at")
    rows = [
        invitation(seat=rater, token_sha256=link.token_sha256, **{name: getattr(link, name) for name in kept})
        for link in links.order_by("pk")
    ]
    invitation.objects.bulk_create(rows)
    links.delete()
    return any(row.used_at is None and row.revoked_at is None for row in rows)


def _slots(apps):
    assignments = apps.get_model("ratings", "Assignment")
    given = defaultdict(int)
    for pk, item in assignments.objects.order_by("item", "rater").values_list("pk", "item"):
        given[item] += 1
        assignments.objects.filter(pk=pk).update(slot=given[item])


def _events(apps):
    ratings, events = apps.get_model("ratings", "Rating"), apps.get_model("ratings", "RatingEvent")
    rows = ratings.objects.order_by("pk").iterator(chunk_size=500)
    made = (
        events(
            assignment_id=row.assignment_id, kind="answer", revision=1, verdict=row.verdict,
            confidence=row.confidence, submission_id=row.submission_id, at=row.submitted_at,
        )
        for row in rows
    )  # fmt: skip
    events.objects.bulk_create(made, batch_size=500)
    ratings.objects.update(layout_shown="aligned")


class Migration(migrations.Migration):
    dependencies = [("ratings", "0002_rating_room"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
