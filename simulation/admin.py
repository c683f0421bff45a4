"""Read-only admin pages of stored rows for superusers. Simulation records are never edited by hand."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from simulation.models import (
    CastDefinition,
    CatalogueEntry,
    CodeEpisode,
    CodeStep,
    Episode,
    EvidenceReview,
    Experiment,
    Grading,
    LanguageModel,
    Mask,
    MissingReview,
    ModelCall,
    ModelPrice,
    PromptSet,
    ProviderGate,
    ReplicationTask,
    Run,
    SandboxRun,
    Transition,
    Twin,
    Worker,
)


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # shared by all models
    """Show rows without adding, changing or deleting any."""

    list_per_page = 50
    show_full_result_count = False  # a count over all rows on every page would be slow on large tables

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


# Calls have further columns whose invisible or misleading characters only the call's own page makes visible.
_OPTIONS: dict[type[Model], dict[str, list[str]]] = {
    Experiment: {"list_display": ["name", "group", "max_steps"], "search_fields": ["name", "slug", "goal"]},
    CatalogueEntry: {"list_display": ["name", "kind"], "list_filter": ["kind"], "search_fields": ["name"]},
    Run: {
        "list_display": ["code", "kind", "cast", "seed", "created_by", "created_at"],
        "list_filter": ["kind", "cast"],
        "list_select_related": ["created_by"],
    },
    Episode: {
        "list_display": ["code", "experiment", "cast", "replicate", "status", "counts", "next_number", "created_at"],
        "list_filter": ["status", "cast", "experiment", "counts"],
        "list_select_related": ["experiment"],
        "search_fields": ["code"],
    },
    Transition: {
        "list_display": ["code", "episode", "number", "action_name", "accepted"],
        "list_filter": ["accepted", "action_name"],
        "list_select_related": ["episode__experiment"],
        "search_fields": ["code"],
    },
    EvidenceReview: {
        "list_display": ["code", "episode", "classifier", "sufficient", "created_at"],
        "list_filter": ["classifier", "sufficient"],
        "list_select_related": ["episode__experiment"],
    },
    MissingReview: {
        "list_display": ["episode", "classifier", "reason", "created_at"],
        "list_filter": ["classifier", "reason"],
        "list_select_related": ["episode__experiment"],
    },
    LanguageModel: {
        "list_display": ["name", "provider", "model_id", "context_limit", "lifecycle", "retires_on"],
        "list_filter": ["provider", "lifecycle"],
    },
    ModelPrice: {
        "list_display": ["model", "effective_from", "input", "cache_read", "output", "source", "read_on"],
        "list_select_related": ["model"],
    },
    CastDefinition: {"list_display": ["name", "description"]},
    PromptSet: {"list_display": ["name", "sha256", "created_at"]},
    ModelCall: {
        "list_display": [
            "code",
            "role",
            "speaker",
            "number",
            "turn",
            "attempt",
            "state",
            "output",
            "cost",
            "started_at",
        ],
        "list_filter": ["state", "role", "provider", "error_class"],
        "exclude": ["request", "reply", "reply_headers"],
        "search_fields": ["code"],
    },
    ProviderGate: {"list_display": ["name", "limit", "closed_until", "faults_running", "blocked"]},
    Twin: {
        "list_display": ["code", "transition", "perturbation", "cast", "number", "status", "kind", "deviation"],
        "list_filter": ["status", "perturbation", "cast", "kind"],
        "list_select_related": ["transition"],
        "search_fields": ["code"],
    },
    Worker: {"list_display": ["owner", "kind", "seen_at", "sandbox"]},
    # Without the salt, from which the secret variants follow.
    ReplicationTask: {"list_display": ["slug", "name", "sha256", "invalid_reason"], "exclude": ["salt", "data"]},
    Mask: {
        "list_display": ["key", "task", "n", "mode", "validated_at"],
        "list_filter": ["task", "n", "mode"],
        "list_select_related": ["task"],
    },
    CodeEpisode: {
        "list_display": ["code", "mask", "cast", "replicate", "status", "phase", "counts", "next_number", "created_at"],
        "list_filter": ["status", "cast", "counts"],
        "list_select_related": ["mask__task"],
        "exclude": ["pending", "memory", "reported"],
        "search_fields": ["code"],
    },
    CodeStep: {
        "list_display": ["episode", "number", "tool", "outcome"],
        "list_filter": ["outcome", "tool"],
        "list_select_related": ["episode__mask__task"],
        "exclude": ["request", "observation"],
    },
    SandboxRun: {
        "list_display": ["episode", "purpose", "number", "state", "backend", "exit", "seconds", "killed"],
        "list_filter": ["state", "purpose", "killed"],
        "list_select_related": ["episode__mask__task"],
        "exclude": ["command"],
    },
    Grading: {
        "list_display": ["episode", "outcome", "solved", "paper_pass", "version"],
        "list_filter": ["outcome", "version"],
        "list_select_related": ["episode__mask__task"],
        "exclude": ["grade", "stages", "variants"],
    },
}
for _model, _options in _OPTIONS.items():
    admin.site.register(_model, ReadOnlyAdmin, **_options)
