"""Replication tasks, workspaces stored by content, masks, code episodes with their steps, sandboxes and gradings."""

import secrets
from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from simulation.models.runs import Experiment, Leased, Run


def create_salt() -> str:
    return secrets.token_hex(32)


class ReplicationTask(models.Model):
    """A paper with code in which functions can be hidden. `data` holds the gold code, the generator and the planted errors.

    None of these ever enters a sandbox in which an agent's code runs.
    """

    slug = models.SlugField(unique=True, max_length=80)
    name = models.CharField(max_length=160)
    data = models.JSONField(help_text="the whole task, read by simulation.replication.tasks.task_files.task_from_json")
    sha256 = models.CharField(max_length=64, help_text="hash_task of the data")
    salt = models.CharField(
        max_length=64, default=create_salt, editable=False, help_text="the secret variants are drawn from it"
    )
    experiments = models.ManyToManyField(Experiment, blank=True, related_name="replication_tasks")
    packages = models.JSONField(default=list, help_text="distributions that its code imports")
    invalid_reason = models.TextField(blank=True, help_text="why it cannot be ordered; empty: no reason found")

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.name


class Blob(models.Model):
    """The content of a file under its hash. Rows are added, never changed, and removed when no tree names them."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size = models.PositiveIntegerField(help_text="bytes, unpacked")
    packed = models.BinaryField(help_text="zlib")
    stored_at = models.DateTimeField(default=timezone.now, help_text="when a tree with it was last stored, to a day")

    def __str__(self) -> str:
        return self.sha256[:12]


class Tree(models.Model):
    """A workspace under the hash of its paths and contents (simulation.replication.trees.hash_tree)."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    entries: "models.JSONField[Any, Any]" = models.JSONField(help_text="[[path, digest of the blob]], sorted by path")
    files = models.PositiveIntegerField()
    bytes = models.PositiveIntegerField()
    stored_at = models.DateTimeField(default=timezone.now, help_text="when it was last stored, to a day")

    def __str__(self) -> str:
        return f"{self.sha256[:12]}, {self.files} files"


class Mask(models.Model):
    """The hidden functions of one version of a task. `test_cases` are those whose traced calls reach one of them."""

    MODES = [(name, name) for name in ("uniform", "nested", "connected", "scattered")]

    task = models.ForeignKey(ReplicationTask, on_delete=models.PROTECT, related_name="masks")
    task_sha256 = models.CharField(max_length=64)
    n = models.PositiveSmallIntegerField(help_text="number of hidden functions")
    mode = models.CharField(max_length=10, choices=MODES)
    index = models.PositiveIntegerField(help_text="position in its draw, from 0")
    key = models.CharField(max_length=40, help_text='as in "u3-004"; "u3-004-s7" if its seed is not 1')
    seed = models.BigIntegerField(help_text="of its draw")
    functions = models.JSONField(help_text="ids, in the order of the task")
    test_cases = models.JSONField(default=list, help_text="ids of the relevant test cases")
    validation: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict, help_text="problems, and what was measured"
    )
    validated_with = models.CharField(
        max_length=64, blank=True, help_text="hash of package versions and machine; empty: not validated"
    )
    validated_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["task", "n", "mode", "index"]
        constraints = [models.UniqueConstraint(fields=["task", "task_sha256", "key"], name="mask_once")]

    def __str__(self) -> str:
        return f"{self.task.slug} {self.key}"


class GoldResult(models.Model):
    """What the unmasked code of one version of a task computes on one data set. Agents and sandboxes never see it."""

    task = models.ForeignKey(ReplicationTask, on_delete=models.PROTECT, related_name="gold_results")
    task_sha256 = models.CharField(max_length=64)
    variant = models.BigIntegerField(help_text="number of the data set; 0 is the public one")
    profile = models.CharField(max_length=10)
    data = models.ForeignKey(Tree, on_delete=models.PROTECT, related_name="+", help_text="the generated data files")
    values = models.JSONField(help_text="test case id -> metric -> value")
    made_with = models.JSONField(help_text="versions of the packages, and the sandbox")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["task", "variant", "profile"]
        constraints = [
            models.UniqueConstraint(fields=["task", "task_sha256", "variant", "profile"], name="gold_result_once")
        ]

    def __str__(self) -> str:
        return f"{self.task.slug}, variant {self.variant}, {self.profile}"


class CodeEpisode(Leased):
    """One attempt of a cast at a mask: tools on a workspace, then reported numbers, then a grading."""

    MOVES: ClassVar[dict[str, tuple[str, ...]]] = {
        "queued": ("running", "cancelled"),
        "running": (
            "waiting", "submitted", "quit", "unreadable_out", "out_of_steps", "out_of_time", "out_of_money", "blocked",
            "failed", "cancelled",
        ),
        "waiting": ("running", "blocked", "failed", "cancelled"),
        "blocked": ("queued", "cancelled"),
        # An ended episode never starts again; a retry is a new row.
        "submitted": (), "quit": (), "unreadable_out": (), "out_of_steps": (), "out_of_time": (), "out_of_money": (),
        "failed": (), "cancelled": (),
    }  # fmt: skip
    # Endings by the agent. The row has one of these only with its grading; until then it is in `ending`.
    ENDINGS: ClassVar[tuple[str, ...]] = (
        "submitted", "quit", "unreadable_out", "out_of_steps", "out_of_time", "out_of_money",
    )  # fmt: skip
    ENDED: ClassVar[tuple[str, ...]] = (*ENDINGS, "failed", "cancelled")
    RETRYABLE: ClassVar[tuple[str, ...]] = ("failed", "cancelled")
    GRADING_PHASES: ClassVar[tuple[str, ...]] = ("extract", "measure", "perturb", "probe")
    SANDBOX_PHASES: ClassVar[tuple[str, ...]] = ("sandbox", *GRADING_PHASES)
    SELECT_RELATED: ClassVar[tuple[str, ...]] = ("run", "mask", "mask__task")
    DEFERRED_FIELDS: ClassVar[tuple[str, ...]] = ("mask__task__data", "mask__validation", "run__setup")
    STATUSES = [(name, name) for name in ("queued", "running", "waiting", "blocked", "submitted", "quit")]
    STATUSES += [("unreadable_out", "three unreadable replies in a row"), ("out_of_steps", "out of steps")]
    STATUSES += [("out_of_time", "out of sandbox time"), ("out_of_money", "out of money")]
    STATUSES += [("cancelled", "stopped"), ("failed", "failed")]
    PHASES = [("agent", "agent chooses a tool"), ("helper", "helper reads or edits a file")]
    PHASES += [("sandbox", "a command runs in a sandbox"), ("extract", "function bodies are extracted")]
    PHASES += [("measure", "they run on the public data"), ("perturb", "they run on secret data")]
    PHASES += [("probe", "single functions are compared")]

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="code_episodes")
    mask = models.ForeignKey(Mask, on_delete=models.PROTECT, related_name="episodes")
    task_sha256 = models.CharField(max_length=64)
    cast = models.CharField(max_length=80)
    conditions = models.JSONField(
        default=dict, help_text="simulation.code_runs.conditions: paper, code, docs, profile, limits"
    )
    conditions_key = models.CharField(max_length=16, help_text="first digits of the conditions' hash")
    replicate = models.PositiveIntegerField()
    retry_of = models.OneToOneField("self", null=True, blank=True, on_delete=models.PROTECT, related_name="retried_as")
    counts = models.BooleanField(default=True, help_text="false once a retry took this replicate's place")
    seed = models.BigIntegerField()
    status = models.CharField(max_length=20, choices=STATUSES, default="queued")
    phase = models.CharField(max_length=12, choices=PHASES, default="agent")
    ending = models.CharField(
        max_length=20, blank=True, choices=STATUSES, help_text="how the agent ended it; its status after the grading"
    )
    next_number = models.PositiveSmallIntegerField(default=1)
    pending: "models.JSONField[Any, Any]" = models.JSONField(
        null=True, blank=True, help_text="phases sandbox and helper: the tool call; grading: the stages so far"
    )
    memory: "models.JSONField[Any, Any]" = models.JSONField(
        default=dict, help_text="what the agent wrote down for itself: plan, summary"
    )
    initial = models.ForeignKey(Tree, on_delete=models.PROTECT, related_name="+")
    present = models.ForeignKey(Tree, on_delete=models.PROTECT, related_name="+")
    folder = models.CharField(max_length=200, blank=True, help_text="the agent's current folder; empty: the workspace")
    sandbox_seconds = models.FloatField(default=0, help_text="of the agent's tools; a grading is not counted")
    sandbox_faults = models.PositiveSmallIntegerField(default=0, help_text="in a row, by the sandbox itself")
    reported = models.TextField(blank=True, help_text="the submitted text, JSON as it was written; empty: none")
    cancel_requested_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                # A retry takes the place of the episode that it replaces.
                fields=["mask", "cast", "conditions_key", "replicate"],
                condition=Q(counts=True),
                name="code_episode_one_per_replicate",
            ),
            models.CheckConstraint(
                condition=~Q(status="failed") | (~Q(error="") & ~Q(reason="")), name="code_episode_failed_says_why"
            ),
            models.CheckConstraint(
                condition=Q(error="") | Q(status__in=("failed", "blocked", "waiting")),
                name="code_episode_error_only_when_held",
            ),
            models.CheckConstraint(
                condition=~Q(phase__in=("sandbox", "helper")) | Q(pending__isnull=False),
                name="code_episode_pending_call",
            ),
            models.CheckConstraint(
                condition=~Q(phase__in=("extract", "measure", "perturb", "probe")) | ~Q(ending=""),
                name="code_episode_graded_after_ending",
            ),
        ]
        indexes = [models.Index(fields=["status", "lease_until"]), models.Index(fields=["run", "status"])]

    def __str__(self) -> str:
        return f"{self.mask}, {self.cast}, replicate {self.replicate}"

    @property
    def has_ended(self) -> bool:
        return self.status in self.ENDED


class CodeStep(models.Model):
    """One tool of a code episode: its call, what the agent was shown, and the workspace before and after it."""

    OUTCOMES = [("done", "done"), ("refused", "refused"), ("unreadable", "unreadable"), ("stopped", "over a limit")]

    episode = models.ForeignKey(CodeEpisode, on_delete=models.PROTECT, related_name="steps")
    number = models.PositiveSmallIntegerField()
    tool = models.CharField(max_length=30, help_text="empty: the reply could not be read")
    request = models.JSONField(null=True, blank=True, help_text="ToolCall.to_json; null: the reply could not be read")
    observation = models.TextField(help_text="at most 64 KiB")
    outcome = models.CharField(max_length=12, choices=OUTCOMES, default="done")
    refused = models.BooleanField(default=False)
    tree_before = models.ForeignKey(Tree, on_delete=models.PROTECT, related_name="+")
    tree_after = models.ForeignKey(Tree, on_delete=models.PROTECT, related_name="+")
    content_sha256 = models.CharField(max_length=64, help_text="of request, observation and both trees")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["episode", "number"]
        constraints = [models.UniqueConstraint(fields=["episode", "number"], name="code_step_once")]

    def __str__(self) -> str:
        return f"step {self.number}: {self.tool or 'unreadable'}"


class SandboxRun(models.Model):
    """One sandbox of a code episode: stored before it starts, completed once, then never changed.

    A sandbox changes nothing outside, so a lost one is run again on the same tree.
    """

    STATES = [
        ("started", "running"),
        ("done", "done"),
        ("lost", "lost with its worker"),
        ("fenced", "ended too late: another worker had taken over"),
        ("fault", "the sandbox itself failed"),
        ("stopped", "a person stopped the episode"),
    ]
    PURPOSES = [("tool", "tool")] + [(name, name) for name in CodeEpisode.GRADING_PHASES]

    episode = models.ForeignKey(CodeEpisode, on_delete=models.PROTECT, related_name="sandbox_runs")
    number = models.PositiveSmallIntegerField(help_text="of the step; of the last step for a grading")
    purpose = models.CharField(max_length=10, choices=PURPOSES)
    index = models.PositiveSmallIntegerField(default=0, help_text="position among the sandboxes of its unit, from 0")
    fence = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=STATES, default="started")
    backend = models.CharField(max_length=40, help_text='as in "bubblewrap/root"')
    limits = models.JSONField(default=dict, help_text="simulation.replication.sandbox.base.Limits")
    tree_in = models.ForeignKey(Tree, on_delete=models.PROTECT, related_name="+")
    command = models.TextField(blank=True, help_text="a tool's command; empty for a grading")
    command_sha256 = models.CharField(max_length=64)
    started_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    exit: "models.IntegerField[int | None, int | None]" = models.IntegerField(
        null=True, blank=True, help_text="exit status; empty: it was stopped"
    )
    seconds = models.FloatField(null=True, blank=True, help_text="wall clock")
    cpu = models.FloatField(null=True, blank=True, help_text="seconds of processor time")
    resident_mib = models.PositiveIntegerField(null=True, blank=True)
    output_bytes = models.BigIntegerField(null=True, blank=True, help_text="before it was cut")
    killed = models.CharField(max_length=12, blank=True, help_text="limit that stopped it; empty: none")
    error = models.TextField(blank=True, help_text="of a fault of the sandbox")

    class Meta:
        ordering = ["episode", "pk"]
        constraints = [
            # Two units under one claim would each have another number or purpose.
            models.UniqueConstraint(fields=["episode", "purpose", "number", "fence", "index"], name="sandbox_run_once"),
            models.CheckConstraint(
                condition=~Q(state="started") | Q(ended_at__isnull=True, seconds__isnull=True, exit__isnull=True),
                name="sandbox_run_started_has_no_result",
            ),
        ]
        indexes = [models.Index(fields=["state"], condition=Q(state="started"), name="sandbox_run_under_way")]

    def __str__(self) -> str:
        return f"{self.purpose} {self.number}: {self.state}"


class Grading(models.Model):
    """The grade of an ended code episode. `sha256` is of all that follows it, so that a changed row is found."""

    episode = models.OneToOneField(CodeEpisode, on_delete=models.PROTECT, related_name="grading")
    version = models.CharField(max_length=20, help_text="of the grading rules")
    outcome = models.CharField(max_length=20, help_text="one of simulation.replication.grading OUTCOMES")
    solved = models.BooleanField()
    paper_pass = models.BooleanField(help_text="all reported numbers within 5 % of gold")
    measured = models.BooleanField(null=True, blank=True, help_text="the rerun on the public data is right; null: none")
    robust = models.BooleanField(null=True, blank=True, help_text="the reruns on secret data are right; null: none")
    variants = models.JSONField(default=list, help_text="sealed: numbers of the secret data sets")
    grade: "models.JSONField[Any, Any]" = models.JSONField(
        help_text="Grade.to_json: patch, outside, findings, compared rows, probes"
    )
    stages: "models.JSONField[Any, Any]" = models.JSONField(default=dict, help_text="what each sandbox returned")
    sha256 = models.CharField(max_length=64)
    created_at: "models.DateTimeField[datetime, datetime]" = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["episode"]
        indexes = [models.Index(fields=["outcome"])]

    def __str__(self) -> str:
        return f"{self.outcome} ({self.version})"
