"""Create the tables of the laboratory in one step.

A database that has all the migrations named in `replaces` counts as migrated by this one.
"""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("simulation", "0001_initial"),
        ("simulation", "0002_manifest_and_findings"),
        ("simulation", "0003_language_models"),
        ("simulation", "0004_vetting"),
        ("simulation", "0005_jobs"),
        ("simulation", "0006_operations"),
        ("simulation", "0007_decision_kind"),
        ("simulation", "0008_verdict_requests"),
        ("simulation", "0009_unnamed_kinds"),
        ("simulation", "0010_paper_plan_and_unread"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Experiment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=80, unique=True)),
                ("name", models.CharField(max_length=120)),
                ("group", models.CharField(max_length=80)),
                ("goal", models.TextField()),
                ("max_steps", models.PositiveSmallIntegerField()),
                ("data", models.JSONField(help_text="the whole data file, read by simulation.lab.experiments.build")),
                ("sha256", models.CharField(max_length=64)),
            ],
            options={
                "ordering": ["group", "name"],
            },
        ),
        migrations.CreateModel(
            name="CatalogueEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80, unique=True)),
                ("kind", models.CharField(max_length=20)),
                ("data", models.JSONField()),
                ("sha256", models.CharField(blank=True, help_text="of the data; empty: not known", max_length=64)),
            ],
            options={
                "verbose_name_plural": "catalogue entries",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("submission_id", models.CharField(max_length=64, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("episodes", "episodes"), ("twins", "twins"), ("ratings", "ratings")], max_length=10
                    ),
                ),
                ("cast", models.CharField(max_length=80)),
                ("seed", models.BigIntegerField()),
                (
                    "manifest",
                    models.BooleanField(
                        default=False, help_text="ManifestMaterials may be used; such episodes are no benchmark"
                    ),
                ),
                (
                    "setup",
                    models.JSONField(
                        default=dict,
                        help_text="the cast with its models and prompt set as they were ordered; empty: rules alone",
                    ),
                ),
                ("setup_sha256", models.CharField(blank=True, max_length=64)),
                ("paused_at", models.DateTimeField(blank=True, null=True)),
                (
                    "replay",
                    models.BooleanField(default=False, help_text="played from a recording: workers leave it alone"),
                ),
                (
                    "max_cost",
                    models.DecimalField(blank=True, decimal_places=6, help_text="US dollars", max_digits=12, null=True),
                ),
                ("max_tokens", models.BigIntegerField(blank=True, null=True)),
                ("max_seconds", models.PositiveIntegerField(blank=True, help_text="from the first call on", null=True)),
                ("first_call_at", models.DateTimeField(blank=True, null=True)),
                (
                    "held_cost",
                    models.DecimalField(
                        decimal_places=6,
                        default=0,
                        help_text="spent or reserved; kept beside the ledger for the cap alone",
                        max_digits=14,
                    ),
                ),
                ("held_tokens", models.BigIntegerField(default=0)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="PaperPlan",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64, unique=True)),
                ("plan", models.JSONField(help_text="ratings.paper.plan, as it was read")),
            ],
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", models.CharField(max_length=120, unique=True)),
                ("kind", models.CharField(max_length=20)),
                ("seen_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="CallText",
            fields=[
                ("sha256", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("text", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="ProviderGate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="provider and fingerprint of the key", max_length=60, unique=True)),
                ("limit", models.FloatField(help_text="calls at once; falls on 429, recovers with answers")),
                ("lowered_at", models.DateTimeField(blank=True, null=True)),
                (
                    "faulted_at",
                    models.DateTimeField(blank=True, help_text="when the last fault was counted", null=True),
                ),
                ("closed_until", models.DateTimeField(blank=True, null=True)),
                (
                    "faults_running",
                    models.PositiveIntegerField(default=0, help_text="infrastructure faults since the last answer"),
                ),
                ("blocked", models.TextField(blank=True, help_text="why the key is not accepted; empty: it is")),
            ],
        ),
        migrations.CreateModel(
            name="LanguageModel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="what casts call it", max_length=80, unique=True)),
                (
                    "provider",
                    models.CharField(help_text="a name of simulation.providers.base.PROVIDERS", max_length=20),
                ),
                ("model_id", models.CharField(help_text="as it goes over the wire", max_length=120)),
                ("aliases", models.JSONField(default=list, help_text="other ids that mean the same")),
                ("options", models.JSONField(default=dict, help_text="simulation.providers.base.WireOptions")),
                (
                    "context_limit",
                    models.PositiveIntegerField(blank=True, help_text="tokens; empty: not known", null=True),
                ),
                (
                    "lifecycle",
                    models.CharField(
                        choices=[
                            ("active", "active"),
                            ("retiring", "retiring"),
                            ("retired", "retired"),
                            ("unknown", "not known"),
                        ],
                        default="unknown",
                        max_length=10,
                    ),
                ),
                ("retires_on", models.DateField(blank=True, null=True)),
                ("lifecycle_source", models.CharField(blank=True, max_length=300)),
                ("lifecycle_read_on", models.DateField(blank=True, null=True)),
                ("note", models.TextField(blank=True)),
            ],
            options={
                "ordering": ["provider", "name"],
            },
        ),
        migrations.CreateModel(
            name="CastDefinition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80, unique=True)),
                ("description", models.TextField()),
                ("data", models.JSONField()),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="PromptSet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=80)),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("files", models.JSONField(help_text="file name -> text")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["name", "-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="Episode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, max_length=120)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("not_before", models.DateTimeField(blank=True, null=True)),
                ("rung_at", models.DateTimeField(blank=True, null=True)),
                ("lost_leases", models.PositiveSmallIntegerField(default=0)),
                (
                    "begun",
                    models.BooleanField(
                        default=False, help_text="a unit of this phase was begun before: the ledger may hold its calls"
                    ),
                ),
                ("awaits_person", models.BooleanField(default=False, help_text="a person has the next move")),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("internal", "a fault of WetBench"),
                            ("worker_lost", "three workers in a row died on it"),
                            ("experiment_changed", "the experiment was changed after it was ordered"),
                            ("cannot_be", "an outcome no bench can hold"),
                            ("invalid_transition", "the transition model gave no usable answer"),
                            ("no_verdict", "the classifier gave no usable verdict"),
                            ("no_twin", "the transition model gave no usable twin"),
                            ("refused", "the model refused"),
                            ("context", "the prompt is longer than the model takes"),
                            ("provider_unavailable", "the provider did not answer"),
                            ("credentials", "the provider did not accept the key"),
                            ("bad_request", "the provider did not accept the request"),
                            ("budget", "the run's budget is used up"),
                            ("rate_limit", "the provider asked to wait"),
                            ("no_slot", "as many calls as allowed are under way"),
                            ("old_worker", "the worker that took it does not know this kind of work"),
                            ("moving", "what it reads keeps changing"),
                        ],
                        help_text="why it failed, is held or waits",
                        max_length=24,
                    ),
                ),
                ("error", models.TextField(blank=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="episodes", to="simulation.run"
                    ),
                ),
                (
                    "experiment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="episodes", to="simulation.experiment"
                    ),
                ),
                ("experiment_sha256", models.CharField(max_length=64)),
                ("cast", models.CharField(max_length=80)),
                ("replicate", models.PositiveIntegerField()),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="retried_as",
                        to="simulation.episode",
                    ),
                ),
                (
                    "counts",
                    models.BooleanField(default=True, help_text="false once a retry took this replicate's place"),
                ),
                ("seed", models.BigIntegerField()),
                ("initial", models.JSONField(help_text="the inventory at the start")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("blocked", "blocked"),
                            ("submitted", "submitted"),
                            ("quit", "quit"),
                            ("rejected_out", "three rejections running"),
                            ("truncated", "out of steps"),
                            ("cancelled", "stopped"),
                            ("failed", "failed"),
                        ],
                        default="queued",
                        max_length=20,
                    ),
                ),
                (
                    "phase",
                    models.CharField(
                        choices=[
                            ("agent", "agent chooses"),
                            ("transition", "transition model answers"),
                            ("verdict", "classifier judges"),
                        ],
                        default="agent",
                        max_length=12,
                    ),
                ),
                ("next_number", models.PositiveSmallIntegerField(default=1)),
                (
                    "pending",
                    models.JSONField(blank=True, help_text="the action chosen and not yet answered", null=True),
                ),
                (
                    "memory",
                    models.JSONField(
                        default=dict, help_text="what the agent wrote down for itself: plan, thoughts, summary"
                    ),
                ),
                ("cancel_requested_at", models.DateTimeField(blank=True, null=True)),
                (
                    "verdict_requests",
                    models.PositiveSmallIntegerField(
                        default=0,
                        help_text="how often missing verdicts of the panel were requested again, after the episode had ended",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
                "indexes": [
                    models.Index(fields=["status", "lease_until"], name="simulation__status_a7dbfa_idx"),
                    models.Index(fields=["run", "status"], name="simulation__run_id_5b0c56_idx"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("counts", True)),
                        fields=("experiment", "cast", "replicate"),
                        name="episode_one_per_replicate",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "failed"), _negated=True),
                            models.Q(models.Q(("error", ""), _negated=True), models.Q(("reason", ""), _negated=True)),
                            _connector="OR",
                        ),
                        name="episode_failed_says_why",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("error", ""), ("status__in", ("failed", "blocked", "waiting")), _connector="OR"
                        ),
                        name="episode_error_only_when_held",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("phase", "transition"), _negated=True),
                            ("pending__isnull", False),
                            _connector="OR",
                        ),
                        name="episode_pending_in_transition",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, max_length=120)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("not_before", models.DateTimeField(blank=True, null=True)),
                ("rung_at", models.DateTimeField(blank=True, null=True)),
                ("lost_leases", models.PositiveSmallIntegerField(default=0)),
                (
                    "begun",
                    models.BooleanField(
                        default=False, help_text="a unit of this phase was begun before: the ledger may hold its calls"
                    ),
                ),
                ("awaits_person", models.BooleanField(default=False, help_text="a person has the next move")),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("internal", "a fault of WetBench"),
                            ("worker_lost", "three workers in a row died on it"),
                            ("experiment_changed", "the experiment was changed after it was ordered"),
                            ("cannot_be", "an outcome no bench can hold"),
                            ("invalid_transition", "the transition model gave no usable answer"),
                            ("no_verdict", "the classifier gave no usable verdict"),
                            ("no_twin", "the transition model gave no usable twin"),
                            ("refused", "the model refused"),
                            ("context", "the prompt is longer than the model takes"),
                            ("provider_unavailable", "the provider did not answer"),
                            ("credentials", "the provider did not accept the key"),
                            ("bad_request", "the provider did not accept the request"),
                            ("budget", "the run's budget is used up"),
                            ("rate_limit", "the provider asked to wait"),
                            ("no_slot", "as many calls as allowed are under way"),
                            ("old_worker", "the worker that took it does not know this kind of work"),
                            ("moving", "what it reads keeps changing"),
                        ],
                        help_text="why it failed, is held or waits",
                        max_length=24,
                    ),
                ),
                ("error", models.TextField(blank=True)),
                ("kind", models.CharField(max_length=30)),
                (
                    "key",
                    models.CharField(
                        help_text="SHA-256 of kind, subject, params and the files' digests: identical requests share a job",
                        max_length=64,
                    ),
                ),
                ("params", models.JSONField(default=dict)),
                (
                    "subject",
                    models.CharField(
                        blank=True, help_text='whose it is: "study/<slug>", "benchmark/<code>"', max_length=80
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("done", "done"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        blank=True,
                        help_text="what pays for its calls",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="simulation.run",
                    ),
                ),
                ("step", models.PositiveIntegerField(default=0)),
                ("of", models.PositiveIntegerField(default=0, help_text="0: not known yet")),
                ("said", models.CharField(blank=True, help_text="what it is doing, for people", max_length=200)),
                ("result", models.JSONField(default=dict)),
                ("cancel_requested_at", models.DateTimeField(blank=True, null=True)),
                (
                    "asked_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "retry_of",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="simulation.job",
                    ),
                ),
            ],
            options={
                "ordering": ["-pk"],
                "indexes": [
                    models.Index(fields=["status", "lease_until"], name="simulation__status_8ef051_idx"),
                    models.Index(fields=["subject", "kind"], name="simulation__subject_83ce1e_idx"),
                    models.Index(fields=["key"], name="job_key"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("status__in", ["queued", "running", "waiting"])),
                        fields=("key",),
                        name="job_once_under_way",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ModelPrice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="prices",
                        to="simulation.languagemodel",
                    ),
                ),
                ("effective_from", models.DateField()),
                ("input", models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True)),
                ("cache_read", models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True)),
                ("cache_write_5m", models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True)),
                ("cache_write_1h", models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True)),
                ("output", models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True)),
                ("source", models.CharField(blank=True, max_length=300)),
                ("read_on", models.DateField(blank=True, null=True)),
            ],
            options={
                "ordering": ["model", "-effective_from"],
                "constraints": [models.UniqueConstraint(fields=("model", "effective_from"), name="price_once_a_day")],
            },
        ),
        migrations.CreateModel(
            name="Transition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "episode",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="transitions", to="simulation.episode"
                    ),
                ),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("number", models.PositiveSmallIntegerField()),
                ("action_name", models.CharField(max_length=80)),
                ("accepted", models.BooleanField()),
                ("rejected_by", models.CharField(blank=True, max_length=20)),
                ("step", models.JSONField(help_text="simulation.lab.bench.step_to_json")),
                (
                    "content_sha256",
                    models.CharField(help_text="of action and outcome without barcodes and noise seeds", max_length=64),
                ),
                (
                    "findings",
                    models.JSONField(
                        blank=True, help_text="simulation.checker's report; null: not checked yet", null=True
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["episode", "number"],
                "constraints": [models.UniqueConstraint(fields=("episode", "number"), name="transition_once_per_step")],
            },
        ),
        migrations.CreateModel(
            name="EvidenceReview",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "episode",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="reviews", to="simulation.episode"
                    ),
                ),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("classifier", models.CharField(max_length=80)),
                (
                    "primary",
                    models.BooleanField(
                        default=True, help_text="false: a panel member's, beside the verdict that ends the episode"
                    ),
                ),
                (
                    "summarised",
                    models.BooleanField(
                        default=False, help_text="a summary was judged: the record exceeds the model's context"
                    ),
                ),
                ("sufficient", models.BooleanField()),
                ("verdict", models.JSONField(help_text="simulation.lab.outcomes.Verdict.to_json")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["episode", "-primary", "classifier"],
                "constraints": [
                    models.UniqueConstraint(fields=("episode", "classifier"), name="review_once_per_classifier")
                ],
            },
        ),
        migrations.CreateModel(
            name="MissingReview",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "episode",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="missing_reviews",
                        to="simulation.episode",
                    ),
                ),
                ("classifier", models.CharField(max_length=80)),
                (
                    "reason",
                    models.CharField(
                        choices=[
                            ("internal", "a fault of WetBench"),
                            ("worker_lost", "three workers in a row died on it"),
                            ("experiment_changed", "the experiment was changed after it was ordered"),
                            ("cannot_be", "an outcome no bench can hold"),
                            ("invalid_transition", "the transition model gave no usable answer"),
                            ("no_verdict", "the classifier gave no usable verdict"),
                            ("no_twin", "the transition model gave no usable twin"),
                            ("refused", "the model refused"),
                            ("context", "the prompt is longer than the model takes"),
                            ("provider_unavailable", "the provider did not answer"),
                            ("credentials", "the provider did not accept the key"),
                            ("bad_request", "the provider did not accept the request"),
                            ("budget", "the run's budget is used up"),
                            ("rate_limit", "the provider asked to wait"),
                            ("no_slot", "as many calls as allowed are under way"),
                            ("old_worker", "the worker that took it does not know this kind of work"),
                            ("moving", "what it reads keeps changing"),
                        ],
                        max_length=24,
                    ),
                ),
                ("error", models.TextField()),
                (
                    "requested_at",
                    models.DateTimeField(
                        blank=True, help_text="when it was requested again and not given yet", null=True
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["episode", "classifier"],
                "constraints": [models.UniqueConstraint(fields=("episode", "classifier"), name="missing_review_once")],
            },
        ),
        migrations.CreateModel(
            name="JobFile",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="files", to="simulation.job"
                    ),
                ),
                ("role", models.CharField(choices=[("in", "in"), ("out", "out")], max_length=4)),
                ("name", models.CharField(max_length=200)),
                ("content_type", models.CharField(max_length=100)),
                ("size", models.BigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "ordering": ["job", "name"],
                "constraints": [models.UniqueConstraint(fields=("job", "role", "name"), name="job_file_once")],
            },
        ),
        migrations.CreateModel(
            name="Twin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("fence", models.PositiveIntegerField(default=0)),
                ("lease_owner", models.CharField(blank=True, max_length=120)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("not_before", models.DateTimeField(blank=True, null=True)),
                ("rung_at", models.DateTimeField(blank=True, null=True)),
                ("lost_leases", models.PositiveSmallIntegerField(default=0)),
                (
                    "begun",
                    models.BooleanField(
                        default=False, help_text="a unit of this phase was begun before: the ledger may hold its calls"
                    ),
                ),
                ("awaits_person", models.BooleanField(default=False, help_text="a person has the next move")),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("internal", "a fault of WetBench"),
                            ("worker_lost", "three workers in a row died on it"),
                            ("experiment_changed", "the experiment was changed after it was ordered"),
                            ("cannot_be", "an outcome no bench can hold"),
                            ("invalid_transition", "the transition model gave no usable answer"),
                            ("no_verdict", "the classifier gave no usable verdict"),
                            ("no_twin", "the transition model gave no usable twin"),
                            ("refused", "the model refused"),
                            ("context", "the prompt is longer than the model takes"),
                            ("provider_unavailable", "the provider did not answer"),
                            ("credentials", "the provider did not accept the key"),
                            ("bad_request", "the provider did not accept the request"),
                            ("budget", "the run's budget is used up"),
                            ("rate_limit", "the provider asked to wait"),
                            ("no_slot", "as many calls as allowed are under way"),
                            ("old_worker", "the worker that took it does not know this kind of work"),
                            ("moving", "what it reads keeps changing"),
                        ],
                        help_text="why it failed, is held or waits",
                        max_length=24,
                    ),
                ),
                ("error", models.TextField(blank=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="twins", to="simulation.run"
                    ),
                ),
                (
                    "transition",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="twins", to="simulation.transition"
                    ),
                ),
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
                ("cast", models.CharField(max_length=80)),
                ("number", models.PositiveSmallIntegerField()),
                (
                    "tries",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="how often it was asked for again after it had ended"
                    ),
                ),
                ("seed", models.BigIntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("blocked", "blocked"),
                            ("done", "done"),
                            ("unsuited", "no error of this type fits"),
                            ("unusable", "unusable: no difference, or no reason given"),
                            ("failed", "failed"),
                            ("cancelled", "stopped"),
                        ],
                        default="queued",
                        max_length=20,
                    ),
                ),
                ("outcome", models.JSONField(blank=True, null=True)),
                ("kind", models.CharField(blank=True, max_length=60)),
                ("rule", models.TextField(blank=True)),
                ("field", models.CharField(blank=True, max_length=200)),
                ("why", models.TextField(blank=True)),
                (
                    "diff",
                    models.JSONField(
                        default=list, help_text="simulation.lab.differences: every place where it is not the original"
                    ),
                ),
                (
                    "vetted_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("vetted_at", models.DateTimeField(blank=True, null=True)),
                (
                    "vetting",
                    models.CharField(
                        blank=True,
                        choices=[("", "not vetted"), ("accepted", "accepted"), ("rejected", "rejected")],
                        max_length=8,
                    ),
                ),
                (
                    "vetted_as",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("none", "none"),
                            ("obvious", "obvious (Error Type 1)"),
                            ("subtle", "subtle (Error Type 2)"),
                        ],
                        help_text="relabelled: the error type it counts as",
                        max_length=8,
                    ),
                ),
                (
                    "findings",
                    models.JSONField(
                        blank=True, help_text="simulation.checker's report; null: not checked yet", null=True
                    ),
                ),
            ],
            options={
                "ordering": ["transition", "perturbation", "number"],
                "indexes": [models.Index(fields=["status", "lease_until"], name="simulation__status_725193_idx")],
                "constraints": [
                    models.UniqueConstraint(fields=("transition", "perturbation", "cast", "number"), name="twin_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "done"), _negated=True),
                            models.Q(
                                ("outcome__isnull", False),
                                models.Q(
                                    models.Q(("why", ""), _negated=True), ("perturbation", "none"), _connector="OR"
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="twin_done_has_outcome",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="JobChunk",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "file",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="chunks", to="simulation.jobfile"
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("data", models.BinaryField()),
            ],
            options={
                "ordering": ["file", "number"],
                "constraints": [models.UniqueConstraint(fields=("file", "number"), name="job_chunk_once")],
            },
        ),
        migrations.CreateModel(
            name="TwinDecision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "twin",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="decisions", to="simulation.twin"
                    ),
                ),
                (
                    "decision",
                    models.CharField(
                        choices=[
                            ("accepted", "accepted"),
                            ("relabelled", "relabelled"),
                            ("rejected", "rejected"),
                            ("unread", "accepted unread"),
                        ],
                        max_length=12,
                    ),
                ),
                ("wrong", models.BooleanField(blank=True, help_text="is it wrong at all?", null=True)),
                ("only_change", models.BooleanField(blank=True, help_text="is the error the only change?", null=True)),
                ("tell", models.BooleanField(blank=True, help_text="does its form give it away?", null=True)),
                (
                    "perturbation",
                    models.CharField(
                        choices=[
                            ("none", "none"),
                            ("obvious", "obvious (Error Type 1)"),
                            ("subtle", "subtle (Error Type 2)"),
                        ],
                        help_text="the error type it counts as",
                        max_length=8,
                    ),
                ),
                ("field", models.CharField(blank=True, max_length=200)),
                ("kind", models.CharField(blank=True, help_text="the kind of error, as it was named", max_length=60)),
                ("note", models.TextField(blank=True)),
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
                "ordering": ["twin", "pk"],
            },
        ),
        migrations.CreateModel(
            name="ModelCall",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("code", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="calls", to="simulation.run"
                    ),
                ),
                (
                    "episode",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="calls",
                        to="simulation.episode",
                    ),
                ),
                (
                    "twin",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="calls",
                        to="simulation.twin",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="calls",
                        to="simulation.job",
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("agent", "agent"),
                            ("transition", "transition model"),
                            ("verdict", "classifier"),
                            ("twin", "twin maker"),
                            ("rating", "rater"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "speaker",
                    models.CharField(help_text="the player's name in its cast: model, or panel member", max_length=80),
                ),
                (
                    "purpose",
                    models.CharField(
                        help_text="act, plan, summary, answer, repair, verdict, perturb, rate", max_length=20
                    ),
                ),
                (
                    "number",
                    models.PositiveSmallIntegerField(
                        help_text="the step it was made for; of a twin, how often it was retried; of ratings, the item's place"
                    ),
                ),
                (
                    "turn",
                    models.PositiveSmallIntegerField(
                        help_text="0 for the first prompt of its unit, then one for each that followed"
                    ),
                ),
                ("attempt", models.PositiveSmallIntegerField(help_text="how often this turn was sent, from 1")),
                ("fence", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("started", "under way"),
                            ("answered", "answered"),
                            ("refused", "refused"),
                            ("failed", "failed"),
                            ("lost", "lost with its worker; maybe paid"),
                            ("fenced", "answered too late: another worker had taken over"),
                        ],
                        default="started",
                        max_length=10,
                    ),
                ),
                (
                    "gate",
                    models.CharField(
                        help_text="the limiter it went through: provider and fingerprint of the key", max_length=60
                    ),
                ),
                ("started_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("model_name", models.CharField(max_length=80)),
                ("provider", models.CharField(max_length=20)),
                ("requested_model", models.CharField(max_length=120)),
                ("served_model", models.CharField(blank=True, max_length=200)),
                ("served_provider", models.CharField(blank=True, max_length=120)),
                ("request_id", models.CharField(blank=True, max_length=200)),
                ("prompt_set", models.CharField(help_text="hash of the set", max_length=64)),
                (
                    "request_sha256",
                    models.CharField(help_text="of the request body without model address and key", max_length=64),
                ),
                ("request", models.JSONField(help_text='the body, long texts as {"text_sha256": ...} (CallText)')),
                ("effective_params", models.JSONField(default=dict)),
                ("dropped_params", models.JSONField(default=dict, help_text="name -> why it was not sent")),
                ("stop", models.CharField(blank=True, max_length=12)),
                ("error_class", models.CharField(blank=True, max_length=24)),
                ("error", models.TextField(blank=True)),
                ("http_status", models.PositiveSmallIntegerField(blank=True, null=True)),
                (
                    "reply",
                    models.BinaryField(blank=True, help_text="the body as it came, up to the byte cap", null=True),
                ),
                ("reply_headers", models.JSONField(default=dict)),
                ("input_uncached", models.PositiveIntegerField(blank=True, null=True)),
                ("cache_read", models.PositiveIntegerField(blank=True, null=True)),
                ("cache_write_5m", models.PositiveIntegerField(blank=True, null=True)),
                ("cache_write_1h", models.PositiveIntegerField(blank=True, null=True)),
                ("output", models.PositiveIntegerField(blank=True, help_text="reasoning included", null=True)),
                ("reasoning", models.PositiveIntegerField(blank=True, null=True)),
                ("reserved_tokens", models.PositiveIntegerField(default=0)),
                ("reserved_cost", models.DecimalField(blank=True, decimal_places=6, max_digits=14, null=True)),
                (
                    "cost",
                    models.DecimalField(
                        blank=True, decimal_places=6, help_text="empty: not known", max_digits=14, null=True
                    ),
                ),
                ("price", models.JSONField(default=dict, help_text="the price row it was reckoned with")),
                ("milliseconds", models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                "ordering": ["pk"],
                "indexes": [
                    models.Index(fields=["run", "role"], name="simulation__run_id_f40aff_idx"),
                    models.Index(condition=models.Q(("state", "started")), fields=["gate"], name="call_under_way"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("episode", "number", "role", "speaker", "turn", "attempt"), name="call_once_in_episode"
                    ),
                    models.UniqueConstraint(
                        fields=("twin", "number", "role", "speaker", "turn", "attempt"), name="call_once_in_twin"
                    ),
                    models.UniqueConstraint(
                        fields=("job", "number", "role", "speaker", "turn", "attempt"), name="call_once_in_job"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("episode__isnull", False), ("job__isnull", True), ("twin__isnull", True)),
                            models.Q(("episode__isnull", True), ("job__isnull", True), ("twin__isnull", False)),
                            models.Q(("episode__isnull", True), ("job__isnull", False), ("twin__isnull", True)),
                            _connector="OR",
                        ),
                        name="call_of_one_thing",
                    ),
                ],
            },
        ),
    ]
