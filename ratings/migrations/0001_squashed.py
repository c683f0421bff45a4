"""Create the tables of studies, raters and results in one step.

A database that has all the migrations named in `replaces` counts as migrated by this one.
"""

import django.db.models.deletion
import django.utils.timezone
import ratings.models.studies
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("ratings", "0001_initial"),
        ("ratings", "0002_rating_room"),
        ("ratings", "0003_fill"),
        ("ratings", "0004_seat_codes"),
        ("ratings", "0005_salt"),
        ("ratings", "0006_analyses"),
        ("ratings", "0007_tokens"),
        ("ratings", "0008_accounts"),
        ("ratings", "0009_rating_room_fast"),
        ("ratings", "0010_scale"),
        ("ratings", "0011_reference"),
        ("ratings", "0012_crossover"),
        ("ratings", "0013_item_pair"),
        ("ratings", "0014_new_items"),
        ("ratings", "0015_rights"),
        ("ratings", "0016_declared_things"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("simulation", "0001_squashed"),
    ]

    operations = [
        migrations.CreateModel(
            name="Study",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("slug", models.SlugField(max_length=80, unique=True)),
                ("name", models.CharField(max_length=120)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("transition_plausibility", "transition plausibility"),
                            ("evidence_sufficiency", "evidence sufficiency"),
                        ],
                        max_length=30,
                    ),
                ),
                ("question", models.CharField(max_length=300)),
                (
                    "protocol",
                    models.JSONField(help_text="the study document, read by ratings.protocol; frozen at opening"),
                ),
                ("seed", models.BigIntegerField()),
                (
                    "salt",
                    models.CharField(
                        default=ratings.models.studies.new_salt,
                        editable=False,
                        help_text="drawn with the seed; told to nobody before unblinding",
                        max_length=32,
                    ),
                ),
                ("ratings_per_item", models.PositiveSmallIntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("draft", "draft"),
                            ("open", "open"),
                            ("paused", "paused"),
                            ("closed", "closed"),
                            ("unblinded", "unblinded"),
                        ],
                        default="draft",
                        max_length=12,
                    ),
                ),
                (
                    "guide",
                    models.TextField(
                        blank=True, help_text="instructions of this study's own, shown with the standing ones"
                    ),
                ),
                ("guide_version", models.PositiveSmallIntegerField(default=1)),
                (
                    "deadline",
                    models.DateField(blank=True, help_text="told to raters; nothing closes by itself", null=True),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("opened_at", models.DateTimeField(blank=True, null=True)),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                ("unblinded_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "studies",
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Benchmark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("note", models.TextField(blank=True)),
                ("sha256", models.CharField(help_text="of the episodes' codes and ends", max_length=64)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "runs",
                    models.ManyToManyField(
                        help_text="the runs it was made from", related_name="+", to="simulation.run"
                    ),
                ),
                (
                    "episodes",
                    models.ManyToManyField(
                        help_text="the episodes that counted at that moment", related_name="+", to="simulation.episode"
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="RightsPeriod",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rights_periods",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("right", models.CharField(choices=[("staff", "staff"), ("superuser", "superuser")], max_length=9)),
                ("began_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["user", "began_at", "pk"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("user", "right"),
                        name="rights_period_one_open",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="RaterProfile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rater_profile",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("degree", models.CharField(blank=True, max_length=60)),
                ("field", models.CharField(blank=True, max_length=120)),
                (
                    "years",
                    models.PositiveSmallIntegerField(blank=True, help_text="of laboratory experience", null=True),
                ),
                ("single_keys", models.BooleanField(default=True)),
                ("answered_at", models.DateTimeField(blank=True, null=True)),
                ("erased_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SignInLink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sign_in_links",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("token_sha256", models.CharField(max_length=64, unique=True)),
                ("purpose", models.CharField(choices=[("admin", "admin"), ("rater", "rater")], max_length=8)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField()),
                ("opened_at", models.DateTimeField(blank=True, null=True)),
                ("used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-created_at"],
            },
        ),
        migrations.CreateModel(
            name="BrowserSession",
            fields=[
                (
                    "session_key",
                    models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name="session key"),
                ),
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="browser_sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "session",
                "verbose_name_plural": "sessions",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="StudyEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="events", to="ratings.study"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("created", "created"),
                            ("edited", "edited"),
                            ("duplicated", "duplicated"),
                            ("opened", "opened"),
                            ("paused", "paused"),
                            ("resumed", "resumed"),
                            ("closed", "closed"),
                            ("reopened", "reopened"),
                            ("unblinded", "unblinded"),
                            ("guide", "guide"),
                            ("invited", "invited"),
                            ("reminded", "reminded"),
                            ("joined", "joined"),
                            ("withdrawn", "withdrawn"),
                            ("erased", "erased"),
                            ("simulated", "simulated"),
                            ("replanned", "replanned"),
                            ("items added", "items added"),
                            ("items imported", "items imported"),
                            ("ratings imported", "ratings imported"),
                            ("quarantine", "quarantine"),
                            ("audited", "audited"),
                            ("looked", "looked"),
                            ("exported", "exported"),
                            ("member", "member"),
                            ("machine", "machine"),
                            ("taken back", "taken back"),
                        ],
                        max_length=20,
                    ),
                ),
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
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("detail", models.CharField(blank=True, max_length=300)),
            ],
            options={
                "ordering": ["at", "pk"],
            },
        ),
        migrations.CreateModel(
            name="GuideVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="guides", to="ratings.study"
                    ),
                ),
                ("number", models.PositiveSmallIntegerField()),
                ("text", models.TextField(blank=True)),
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
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["study", "number"],
                "constraints": [models.UniqueConstraint(fields=("study", "number"), name="guide_version_once")],
            },
        ),
        migrations.CreateModel(
            name="BlindingAudit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="audits", to="ratings.study"
                    ),
                ),
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
                ("passed", models.BooleanField()),
                ("report", models.JSONField()),
                ("sha256", models.CharField(help_text="of the report in canonical form", max_length=64)),
            ],
            options={
                "ordering": ["-at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Item",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="items", to="ratings.study"
                    ),
                ),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("payload", models.JSONField(help_text="made by ratings.blinding")),
                ("payload_sha256", models.CharField(max_length=64)),
                (
                    "pair_sha256",
                    models.CharField(
                        blank=True,
                        help_text="of the action and the materials before it: the same for all versions of one thing, in every study",
                        max_length=64,
                    ),
                ),
                (
                    "context",
                    models.JSONField(
                        default=dict,
                        help_text="goal and earlier steps, made by ratings.blinding; empty where no arm shows them",
                    ),
                ),
                (
                    "context_sha256",
                    models.CharField(
                        default="44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", max_length=64
                    ),
                ),
                (
                    "screen",
                    models.PositiveSmallIntegerField(
                        default=0,
                        help_text="crossover over screens: 1 or 2, the display arm that this version has; 0 in all others",
                    ),
                ),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["pair_sha256", "study"], name="item_pair_in_studies")],
                "constraints": [
                    models.UniqueConstraint(fields=("study", "payload_sha256", "screen"), name="item_once_per_screen")
                ],
            },
        ),
        migrations.CreateModel(
            name="ImportedItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="imported_items", to="ratings.study"
                    ),
                ),
                ("key", models.CharField(help_text="its id in the file", max_length=120)),
                ("record", models.JSONField(help_text="the line as it was read")),
                ("payload", models.JSONField(help_text="made by ratings.blinding")),
                ("payload_sha256", models.CharField(max_length=64)),
                ("context", models.JSONField(default=dict)),
                (
                    "context_sha256",
                    models.CharField(
                        default="44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", max_length=64
                    ),
                ),
                (
                    "target",
                    models.JSONField(
                        default=list, help_text="mark keys of the rows that hold the error; empty: not known"
                    ),
                ),
                ("label", models.CharField(help_text="its source, as the file names it", max_length=80)),
                (
                    "perturbation",
                    models.CharField(
                        choices=[
                            ("none", "none"),
                            ("obvious", "obvious (Error Type 1)"),
                            ("subtle", "subtle (Error Type 2)"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "truth",
                    models.BooleanField(blank=True, help_text="right by declaration; empty if unknown", null=True),
                ),
                (
                    "reference",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("planted", "planted"),
                            ("unperturbed", "unperturbed"),
                            ("declared wrong", "declared wrong"),
                            ("declared right", "declared right"),
                            ("", "not known"),
                        ],
                        help_text="what verdicts are compared with",
                        max_length=14,
                    ),
                ),
                (
                    "pair",
                    models.CharField(
                        blank=True, help_text="shared by versions of one thing; empty: by content", max_length=120
                    ),
                ),
                ("experiment", models.CharField(blank=True, max_length=80)),
                ("action", models.CharField(blank=True, max_length=80)),
                ("verdicts", models.JSONField(default=dict, help_text="classifier -> sufficient")),
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
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["study", "pk"],
                "constraints": [
                    models.UniqueConstraint(fields=("study", "key"), name="imported_item_key_once"),
                    models.UniqueConstraint(fields=("study", "payload_sha256"), name="imported_item_payload_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Quarantine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="quarantine", to="ratings.study"
                    ),
                ),
                ("payload_sha256", models.CharField(max_length=64)),
                ("payload", models.JSONField()),
                ("reasons", models.JSONField(default=list, help_text="[[place, what was found]]")),
                (
                    "decision",
                    models.CharField(
                        blank=True,
                        choices=[("", "undecided"), ("released", "released"), ("dropped", "dropped")],
                        max_length=8,
                    ),
                ),
                (
                    "things",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="[[name found, what it is in the laboratory]], declared with the release",
                    ),
                ),
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
                ("at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["study", "pk"],
                "constraints": [models.UniqueConstraint(fields=("study", "payload_sha256"), name="quarantine_once")],
            },
        ),
        migrations.CreateModel(
            name="MachineRater",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="machine_raters", to="ratings.study"
                    ),
                ),
                ("label", models.CharField(help_text="M1, M2, ...", max_length=12)),
                ("cast", models.CharField(help_text="what was asked for with --cast", max_length=80)),
                ("name", models.CharField(help_text="model, or set of rules, as people know it", max_length=120)),
                (
                    "run",
                    models.ForeignKey(
                        blank=True,
                        help_text="what pays for its calls",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="simulation.run",
                    ),
                ),
                ("setup", models.JSONField(default=dict, help_text="model, parameters and prompts, frozen")),
                (
                    "changes",
                    models.PositiveIntegerField(default=0, help_text="how often answers were stored or taken back"),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["study", "pk"],
                "constraints": [
                    models.UniqueConstraint(fields=("study", "label"), name="machine_rater_label_once"),
                    models.UniqueConstraint(fields=("study", "cast"), name="machine_rater_cast_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="members", to="ratings.study"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("role", models.CharField(choices=[("admin", "study admin"), ("analyst", "analyst")], max_length=8)),
            ],
            options={
                "ordering": ["study", "role", "pk"],
                "constraints": [models.UniqueConstraint(fields=("study", "user"), name="membership_once")],
            },
        ),
        migrations.CreateModel(
            name="Rater",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "study",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="raters", to="ratings.study"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="seats",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("label", models.CharField(max_length=12)),
                ("number", models.PositiveIntegerField(default=0, help_text="of the label: R07 is 7")),
                ("simulated", models.BooleanField(default=False)),
                ("imported_as", models.CharField(blank=True, help_text="what the file called them", max_length=120)),
                ("invited_at", models.DateTimeField(blank=True, null=True)),
                ("consented_at", models.DateTimeField(blank=True, null=True)),
                (
                    "guide_seen",
                    models.PositiveSmallIntegerField(default=0, help_text="version of the guide that was read last"),
                ),
                (
                    "practised_at",
                    models.DateTimeField(blank=True, help_text="when practice was passed or not asked for", null=True),
                ),
                (
                    "started_at",
                    models.DateTimeField(blank=True, help_text="when the first item could be rated", null=True),
                ),
                (
                    "finished_at",
                    models.DateTimeField(
                        blank=True, help_text="the rater pressed Finish: nothing changes now", null=True
                    ),
                ),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
                (
                    "dropped",
                    models.BooleanField(default=False, help_text="withdrawn, and the study's rule drops their ratings"),
                ),
                (
                    "recalled_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="crossover: when the letter was sent that says the washout is over",
                        null=True,
                    ),
                ),
                (
                    "new_items_at",
                    models.DateTimeField(
                        blank=True,
                        help_text="when items came after the rater had rated all they had; empty once a letter said so",
                        null=True,
                    ),
                ),
                ("last_seen_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["study", "number"],
                "constraints": [
                    models.UniqueConstraint(fields=("study", "label"), name="rater_label_once"),
                    models.UniqueConstraint(fields=("study", "user"), name="rater_user_once_per_study"),
                    models.CheckConstraint(
                        condition=models.Q(("simulated", False), ("invited_at__isnull", True), _connector="OR"),
                        name="rater_simulated_is_never_invited",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("dropped", False), ("withdrawn_at__isnull", False), _connector="OR"),
                        name="rater_dropped_has_withdrawn",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("token_sha256", models.CharField(max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list, help_text="names of ratings.api.tokens")),
                (
                    "limited",
                    models.BooleanField(
                        default=False, help_text="reads `studies` alone, and nothing of the laboratory"
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField()),
                ("last_used_at", models.DateTimeField(blank=True, help_text="to the minute", null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("studies", models.ManyToManyField(blank=True, related_name="+", to="ratings.study")),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="api_token_expires_after_made",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Analysis",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "study",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="analyses",
                        to="ratings.study",
                    ),
                ),
                (
                    "benchmark",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="analyses",
                        to="ratings.benchmark",
                    ),
                ),
                ("key", models.CharField(max_length=64, unique=True)),
                ("mark", models.CharField(max_length=64)),
                ("filters", models.JSONField(default=dict)),
                ("version", models.PositiveSmallIntegerField(help_text="of the document's form")),
                ("seed", models.BigIntegerField()),
                ("resamples", models.PositiveIntegerField()),
                ("full", models.BooleanField(default=False)),
                (
                    "data_sha256",
                    models.CharField(help_text="of the ratings it was computed from, in canonical form", max_length=64),
                ),
                ("n_ratings", models.PositiveIntegerField()),
                ("document", models.JSONField()),
                ("sha256", models.CharField(help_text="of the document in canonical form", max_length=64)),
                ("made_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("seconds", models.FloatField(default=0)),
            ],
            options={
                "verbose_name_plural": "analyses",
                "ordering": ["-made_at", "-pk"],
                "indexes": [models.Index(fields=["study", "made_at"], name="ratings_ana_study_i_874e5d_idx")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("study__isnull", True), ("benchmark__isnull", True), _connector="XOR"),
                        name="analysis_of_one_thing",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ItemSource",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "item",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="source", to="ratings.item"
                    ),
                ),
                ("pair", models.UUIDField(help_text="shared by an original and its twins")),
                ("label", models.CharField(help_text="the cast that made it", max_length=80)),
                (
                    "perturbation",
                    models.CharField(
                        choices=[
                            ("none", "none"),
                            ("obvious", "obvious (Error Type 1)"),
                            ("subtle", "subtle (Error Type 2)"),
                        ],
                        max_length=8,
                    ),
                ),
                (
                    "truth",
                    models.BooleanField(
                        blank=True, help_text="whether the outcome is right; empty if unknown", null=True
                    ),
                ),
                (
                    "reference",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("planted", "planted"),
                            ("unperturbed", "unperturbed"),
                            ("declared wrong", "declared wrong"),
                            ("declared right", "declared right"),
                            ("", "not known"),
                        ],
                        help_text="what verdicts are compared with",
                        max_length=14,
                    ),
                ),
                ("experiment", models.CharField(blank=True, max_length=80)),
                ("action", models.CharField(blank=True, max_length=80)),
                (
                    "transition",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="simulation.transition",
                    ),
                ),
                (
                    "twin",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="simulation.twin",
                    ),
                ),
                (
                    "review",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="simulation.evidencereview",
                    ),
                ),
                (
                    "imported",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ratings.importeditem",
                    ),
                ),
                (
                    "target",
                    models.JSONField(
                        default=list, help_text="mark keys of the rows that hold the planted error; empty: not known"
                    ),
                ),
                (
                    "verdicts",
                    models.JSONField(
                        default=dict, help_text="classifier name -> sufficient, as it stood when the study opened"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("imported__isnull", True), ("review__isnull", True), ("transition__isnull", False)
                            ),
                            models.Q(
                                ("imported__isnull", True),
                                ("review__isnull", False),
                                ("transition__isnull", True),
                                ("twin__isnull", True),
                            ),
                            models.Q(
                                ("imported__isnull", False),
                                ("review__isnull", True),
                                ("transition__isnull", True),
                                ("twin__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="item_source_is_one_thing",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="MachineRating",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "rater",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="ratings", to="ratings.machinerater"
                    ),
                ),
                (
                    "item",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="machine_ratings", to="ratings.item"
                    ),
                ),
                ("verdict", models.BooleanField(blank=True, null=True)),
                (
                    "confidence",
                    models.PositiveSmallIntegerField(blank=True, help_text="empty where it gives none", null=True),
                ),
                ("marks", models.JSONField(default=list, help_text="keys of rows that look wrong")),
                ("reasoning", models.TextField(blank=True)),
                (
                    "failed",
                    models.CharField(
                        blank=True, help_text="why there is no verdict; empty: there is one", max_length=24
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("payload_sha256", models.CharField(help_text="of what it was shown", max_length=64)),
                (
                    "round",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="how often what failed had been retried before it"
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["rater", "pk"],
                "constraints": [
                    models.UniqueConstraint(fields=("rater", "item"), name="machine_rating_once"),
                    models.CheckConstraint(
                        condition=models.Q(("verdict__isnull", True), ("failed", ""), _connector="XOR"),
                        name="machine_rating_has_verdict_or_reason",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("confidence__isnull", True),
                            models.Q(("confidence__gte", 1), ("confidence__lte", 5)),
                            _connector="OR",
                        ),
                        name="machine_rating_confidence_1_to_5",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Invitation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "seat",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="invitations", to="ratings.rater"
                    ),
                ),
                ("email", models.EmailField(blank=True, max_length=254)),
                ("token_sha256", models.CharField(max_length=64, unique=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("send_error", models.CharField(blank=True, max_length=300)),
                ("used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Assignment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "item",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="assignments", to="ratings.item"
                    ),
                ),
                (
                    "rater",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="assignments",
                        to="ratings.rater",
                    ),
                ),
                ("occasion", models.PositiveSmallIntegerField(default=1)),
                (
                    "session",
                    models.PositiveSmallIntegerField(default=1, help_text="crossover studies: 1 or 2; 1 in all others"),
                ),
                ("position", models.PositiveIntegerField()),
                ("pair", models.UUIDField()),
                ("slot", models.PositiveSmallIntegerField(blank=True, null=True)),
                (
                    "layout",
                    models.CharField(
                        choices=[
                            ("plain", "plain"),
                            ("aligned", "aligned"),
                            ("balance", "balance"),
                            ("confirm", "confirm"),
                        ],
                        default="aligned",
                        max_length=8,
                    ),
                ),
                ("with_context", models.BooleanField(default=False)),
                (
                    "marks",
                    models.CharField(
                        choices=[("off", "off"), ("if_not_plausible", "if not plausible"), ("always", "always")],
                        default="off",
                        max_length=16,
                    ),
                ),
                ("opened_at", models.DateTimeField(blank=True, help_text="when it was first shown", null=True)),
                (
                    "lease_until",
                    models.DateTimeField(
                        blank=True, help_text="pool studies: when others may claim the slot", null=True
                    ),
                ),
                (
                    "released_at",
                    models.DateTimeField(
                        blank=True, help_text="taken back: withdrawn, expired or dealt anew", null=True
                    ),
                ),
                (
                    "surplus",
                    models.BooleanField(
                        default=False, help_text="rated after its slot had gone to another: kept, counted nowhere"
                    ),
                ),
            ],
            options={
                "ordering": ["rater", "position"],
                "indexes": [
                    models.Index(
                        fields=["rater", "item", "occasion", "released_at", "surplus"], name="assignment_counts"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("item", "rater", "occasion"), name="assignment_once_per_rater"),
                    models.UniqueConstraint(
                        fields=("rater", "pair", "occasion", "session"), name="assignment_one_version_per_session"
                    ),
                    models.UniqueConstraint(fields=("rater", "position"), name="assignment_one_per_position"),
                    models.UniqueConstraint(
                        condition=models.Q(("occasion", 1), ("released_at__isnull", True), ("slot__isnull", False)),
                        fields=("item", "slot"),
                        name="assignment_one_per_slot",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("occasion__in", [1, 2])), name="assignment_occasion_1_or_2"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("session__in", [1, 2])), name="assignment_session_1_or_2"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("slot__isnull", True),
                            models.Q(("released_at__isnull", True), ("surplus", False)),
                            _connector="OR",
                        ),
                        name="assignment_released_holds_no_slot",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PracticeAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "rater",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="practice_answers", to="ratings.rater"
                    ),
                ),
                ("key", models.CharField(help_text="of the practice item in fixtures/practice/", max_length=60)),
                ("verdict", models.BooleanField()),
                ("confidence", models.PositiveSmallIntegerField()),
                ("right", models.BooleanField()),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["rater", "pk"],
                "constraints": [models.UniqueConstraint(fields=("rater", "key"), name="practice_answer_once")],
            },
        ),
        migrations.CreateModel(
            name="Drawing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "analysis",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="drawings", to="ratings.analysis"
                    ),
                ),
                ("name", models.CharField(max_length=40)),
                ("profile", models.CharField(choices=[("wide", "wide"), ("narrow", "narrow")], max_length=8)),
                ("svg", models.TextField()),
                ("summary", models.TextField(help_text="the figure in one sentence, with its numbers")),
            ],
            options={
                "ordering": ["analysis", "pk"],
                "constraints": [models.UniqueConstraint(fields=("analysis", "name", "profile"), name="drawing_once")],
            },
        ),
        migrations.CreateModel(
            name="Rating",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "assignment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="rating", to="ratings.assignment"
                    ),
                ),
                (
                    "verdict",
                    models.BooleanField(
                        blank=True, help_text="plausible, or sufficient; empty: cannot judge", null=True
                    ),
                ),
                ("confidence", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("cannot_judge", models.BooleanField(default=False)),
                ("marks", models.JSONField(default=list, help_text="keys of the rows that look wrong")),
                ("note", models.TextField(blank=True)),
                ("submission_id", models.UUIDField(unique=True)),
                ("revision", models.PositiveSmallIntegerField(default=1)),
                ("opened_at", models.DateTimeField()),
                ("submitted_at", models.DateTimeField(help_text="the first version")),
                ("revised_at", models.DateTimeField(blank=True, help_text="the last correction", null=True)),
                (
                    "seconds",
                    models.FloatField(
                        help_text="from the item's first showing to its first submission, by the server's clock"
                    ),
                ),
                (
                    "active_seconds",
                    models.FloatField(blank=True, help_text="tab visible and rater active, by the browser", null=True),
                ),
                (
                    "first_verdict_seconds",
                    models.FloatField(blank=True, help_text="active seconds to the first choice", null=True),
                ),
                ("changes", models.PositiveSmallIntegerField(default=0, help_text="changes of mind before submission")),
                (
                    "hand",
                    models.CharField(
                        blank=True,
                        choices=[("", "not known"), ("keys", "keys"), ("pointer", "pointer"), ("both", "both")],
                        max_length=8,
                    ),
                ),
                ("viewport", models.CharField(blank=True, help_text="width x height in CSS pixels", max_length=12)),
                (
                    "layout_shown",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("plain", "plain"),
                            ("aligned", "aligned"),
                            ("balance", "balance"),
                            ("confirm", "confirm"),
                        ],
                        help_text="plain where lineage failed",
                        max_length=8,
                    ),
                ),
                ("guide_version", models.PositiveSmallIntegerField(default=1)),
                ("interface_version", models.CharField(blank=True, max_length=12)),
                ("imported", models.BooleanField(default=False, help_text="collected elsewhere")),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("cannot_judge", False),
                                ("confidence__gte", 1),
                                ("confidence__lte", 5),
                                ("verdict__isnull", False),
                            ),
                            models.Q(("cannot_judge", True), ("confidence__isnull", True), ("verdict__isnull", True)),
                            _connector="OR",
                        ),
                        name="rating_is_whole",
                    ),
                    models.CheckConstraint(condition=models.Q(("seconds__gte", 0)), name="rating_seconds_not_negative"),
                ],
            },
        ),
        migrations.CreateModel(
            name="RatingEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "assignment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="rating_events",
                        to="ratings.assignment",
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("answer", "answer"), ("correction", "correction"), ("imported", "imported")],
                        max_length=12,
                    ),
                ),
                ("revision", models.PositiveSmallIntegerField()),
                ("verdict", models.BooleanField(blank=True, null=True)),
                ("confidence", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("cannot_judge", models.BooleanField(default=False)),
                ("marks", models.JSONField(default=list)),
                ("note", models.TextField(blank=True)),
                ("submission_id", models.UUIDField(unique=True)),
                ("active_seconds", models.FloatField(blank=True, null=True)),
                ("at", models.DateTimeField()),
            ],
            options={
                "ordering": ["assignment", "revision"],
                "constraints": [
                    models.UniqueConstraint(fields=("assignment", "revision"), name="rating_event_once_per_revision"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("cannot_judge", False),
                                ("confidence__gte", 1),
                                ("confidence__lte", 5),
                                ("verdict__isnull", False),
                            ),
                            models.Q(("cannot_judge", True), ("confidence__isnull", True), ("verdict__isnull", True)),
                            _connector="OR",
                        ),
                        name="rating_event_is_whole",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="FirstLook",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "assignment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="first_look", to="ratings.assignment"
                    ),
                ),
                ("verdict", models.BooleanField()),
                ("confidence", models.PositiveSmallIntegerField()),
                ("marks", models.JSONField(default=list)),
                ("submission_id", models.UUIDField(unique=True)),
                ("active_seconds", models.FloatField(blank=True, null=True)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("confidence__gte", 1), ("confidence__lte", 5)), name="first_look_1_to_5"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Draft",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "assignment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="draft", to="ratings.assignment"
                    ),
                ),
                ("verdict", models.BooleanField(blank=True, null=True)),
                ("confidence", models.PositiveSmallIntegerField(blank=True, null=True)),
                ("marks", models.JSONField(default=list)),
                ("note", models.TextField(blank=True)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
    ]
