"""The call log: what was sent to language models, what they answered and what it cost."""

import uuid

from django.db import models
from django.db.models import Q

from simulation.models.episodes import Episode, Twin
from simulation.models.jobs import Job
from simulation.models.replication import CodeEpisode
from simulation.models.runs import Run

_SUBJECTS = ("episode", "twin", "job", "code_episode")


def _is_only(subject: str) -> Q:
    return Q(**{f"{name}__isnull": name != subject for name in _SUBJECTS})


class CallText(models.Model):
    """A long text of requests, stored under its hash. Text that many calls have in common is stored once."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    text = models.TextField()

    def __str__(self) -> str:
        return self.sha256[:12]


class ModelCall(models.Model):
    """One HTTP attempt: stored before it is sent, completed once, then never changed or deleted.

    Token counts are the provider's; empty if it reported none. A lost call keeps the tokens that were reserved for it.
    """

    STATES = [
        ("started", "in progress"),
        ("answered", "answered"),
        ("refused", "refused"),
        ("failed", "failed"),
        ("lost", "lost with its worker; maybe paid"),
        ("fenced", "answered too late: another worker had taken over"),
    ]
    ROLES = [("agent", "agent"), ("transition", "transition model"), ("verdict", "classifier")]
    ROLES += [("twin", "twin maker"), ("rating", "rater"), ("code", "coding agent"), ("helper", "helper")]

    code = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="calls")
    # exactly one of these four is set (constraint call_of_one_thing)
    episode = models.ForeignKey(Episode, null=True, blank=True, on_delete=models.PROTECT, related_name="calls")
    twin = models.ForeignKey(Twin, null=True, blank=True, on_delete=models.PROTECT, related_name="calls")
    job = models.ForeignKey(Job, null=True, blank=True, on_delete=models.PROTECT, related_name="calls")
    code_episode = models.ForeignKey(CodeEpisode, null=True, blank=True, on_delete=models.PROTECT, related_name="calls")
    role = models.CharField(max_length=10, choices=ROLES)
    speaker = models.CharField(max_length=80, help_text="the player's name in its cast: model, or panel member")
    purpose = models.CharField(max_length=20, help_text="act, plan, summary, answer, repair, verdict, perturb, rate")
    number = models.PositiveSmallIntegerField(
        help_text="episodes: number of the step; twins: number of retries; ratings: position of the item"
    )
    turn = models.PositiveSmallIntegerField(help_text="number of the prompt within its unit, from 0")
    attempt = models.PositiveSmallIntegerField(help_text="number of the attempt for this turn, from 1")
    fence = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=STATES, default="started")
    gate = models.CharField(max_length=60, help_text="rate limiter: provider and fingerprint of the key")
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    model_name = models.CharField(max_length=80)
    provider = models.CharField(max_length=20)
    requested_model = models.CharField(max_length=120)
    served_model = models.CharField(max_length=200, blank=True)
    served_provider = models.CharField(max_length=120, blank=True)
    request_id = models.CharField(max_length=200, blank=True)
    prompt_set = models.CharField(max_length=64, help_text="hash of the set")
    request_sha256 = models.CharField(max_length=64, help_text="of the request body without model address and key")
    request = models.JSONField(help_text='the body, long texts as {"text_sha256": ...} (CallText)')
    effective_params = models.JSONField(default=dict)
    dropped_params = models.JSONField(default=dict, help_text="name -> reason why it was not sent")
    stop = models.CharField(max_length=12, blank=True)
    error_class = models.CharField(max_length=24, blank=True)
    error = models.TextField(blank=True)
    http_status = models.PositiveSmallIntegerField(null=True, blank=True)
    reply = models.BinaryField(null=True, blank=True, help_text="the response body, up to the byte limit")
    reply_headers = models.JSONField(default=dict)
    input_uncached = models.PositiveIntegerField(null=True, blank=True)
    cache_read = models.PositiveIntegerField(null=True, blank=True)
    cache_write_5m = models.PositiveIntegerField(null=True, blank=True)
    cache_write_1h = models.PositiveIntegerField(null=True, blank=True)
    output = models.PositiveIntegerField(null=True, blank=True, help_text="reasoning included")
    reasoning = models.PositiveIntegerField(null=True, blank=True)
    reserved_tokens = models.PositiveIntegerField(default=0)
    reserved_cost = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True)
    cost = models.DecimalField(max_digits=14, decimal_places=6, null=True, blank=True, help_text="empty: not known")
    price = models.JSONField(default=dict, help_text="the price row it was reckoned with")
    milliseconds = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                # Two workers that believe they hold the same row cannot log the same attempt twice.
                fields=["episode", "number", "role", "speaker", "turn", "attempt"],
                name="call_once_in_episode",
            ),
            models.UniqueConstraint(
                fields=["twin", "number", "role", "speaker", "turn", "attempt"], name="call_once_in_twin"
            ),
            models.UniqueConstraint(
                fields=["job", "number", "role", "speaker", "turn", "attempt"], name="call_once_in_job"
            ),
            models.UniqueConstraint(
                fields=["code_episode", "number", "role", "speaker", "turn", "attempt"],
                name="call_once_in_code_episode",
            ),
            models.CheckConstraint(
                condition=_is_only("episode") | _is_only("twin") | _is_only("job") | _is_only("code_episode"),
                name="call_of_one_thing",
            ),
        ]
        indexes = [
            models.Index(fields=["run", "role"]),
            # Before each call, the calls under way with its key are counted; almost all rows have ended.
            models.Index(fields=["gate"], condition=Q(state="started"), name="call_under_way"),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.number}.{self.turn}.{self.attempt} by {self.model_name}"


class ProviderGate(models.Model):
    """The rate limit of one key of one provider, shared by all workers."""

    name = models.CharField(max_length=60, unique=True, help_text="provider and fingerprint of the key")
    limit = models.FloatField(help_text="calls at once; falls on 429, recovers with answers")
    lowered_at = models.DateTimeField(null=True, blank=True)
    faulted_at = models.DateTimeField(null=True, blank=True, help_text="when the last fault was counted")
    closed_until = models.DateTimeField(null=True, blank=True)
    faults_running = models.PositiveIntegerField(default=0, help_text="infrastructure faults since the last answer")
    blocked = models.TextField(blank=True, help_text="reason why the key is rejected; empty: accepted")

    def __str__(self) -> str:
        return self.name


class LanguageModel(models.Model):
    """A language model that can play a role: its address, its limits, and whether it is still offered."""

    LIFECYCLES = [("active", "active"), ("retiring", "retiring"), ("retired", "retired"), ("unknown", "not known")]

    name = models.CharField(unique=True, max_length=80, help_text="what casts call it")
    provider = models.CharField(max_length=20, help_text="a name of simulation.providers.base.PROVIDERS")
    model_id = models.CharField(max_length=120, help_text="as sent to the provider")
    aliases = models.JSONField(default=list, help_text="other ids that mean the same")
    options = models.JSONField(default=dict, help_text="simulation.providers.base.WireOptions")
    context_limit = models.PositiveIntegerField(null=True, blank=True, help_text="tokens; empty: not known")
    lifecycle = models.CharField(max_length=10, choices=LIFECYCLES, default="unknown")
    retires_on = models.DateField(null=True, blank=True)
    lifecycle_source = models.CharField(max_length=300, blank=True)
    lifecycle_read_on = models.DateField(null=True, blank=True)
    note = models.TextField(blank=True)

    class Meta:
        ordering = ["provider", "name"]

    def __str__(self) -> str:
        return self.name


class ModelPrice(models.Model):
    """The price of a model from a day on, in US dollars per million tokens of each class. Unknown prices are empty."""

    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="prices")
    effective_from = models.DateField()
    input = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    cache_read = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    cache_write_5m = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    cache_write_1h = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    output = models.DecimalField(max_digits=12, decimal_places=6, null=True, blank=True)
    source = models.CharField(max_length=300, blank=True)
    read_on = models.DateField(null=True, blank=True)

    class Meta:
        ordering = ["model", "-effective_from"]
        constraints = [models.UniqueConstraint(fields=["model", "effective_from"], name="price_once_a_day")]

    def __str__(self) -> str:
        return f"{self.model} from {self.effective_from}"


class CastDefinition(models.Model):
    """A cast with language models, as data; `simulation.casts.data_files` parses it."""

    name = models.CharField(unique=True, max_length=80)
    description = models.TextField()
    data = models.JSONField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PromptSet(models.Model):
    """The texts of a prompt set under their hash. Rows never change: changed texts have another hash and are a new row."""

    name = models.CharField(max_length=80)
    sha256 = models.CharField(max_length=64, unique=True)
    files = models.JSONField(help_text="file name -> text")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} {self.sha256[:12]}"
