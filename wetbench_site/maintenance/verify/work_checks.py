"""Rules that the database itself, model calls, job files and leases must meet."""

import hashlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

from django.apps import apps
from django.db import connection, models
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Count, Exists, F, Max, Min, Model, OuterRef, Q

from simulation.calls import call_log, run_usage
from simulation.casts import load_files, pricing, run_config
from simulation.jobs import job_files
from simulation.llm import prompt_sets
from simulation.models import (
    CallText,
    CatalogueEntry,
    CodeEpisode,
    Episode,
    Experiment,
    Job,
    JobChunk,
    JobFile,
    Leased,
    ModelCall,
    PromptSet,
    Run,
    Twin,
)
from simulation.providers.base import Usage
from wetbench_site import checks
from wetbench_site.database import fetch_rows
from wetbench_site.maintenance.verify.checks import (
    Check,
    Violation,
    build_check,
    build_digest_check,
    build_violation,
    iter_rows,
    report_rows,
)
from wetbench_site.text import hash_json, hash_text

LeasedModel = type[Episode] | type[Twin] | type[CodeEpisode] | type[Job]


def _find_wrong_ends(model: LeasedModel) -> Iterator[Violation]:
    has_ended = Q(status__in=model.ENDED)
    is_in_use = Q(ended_at__isnull=True) | Q(lease_until__isnull=False) | Q(awaits_person=True)
    rows, found = model.objects.order_by("pk"), "ended {ended_at}, leased until {lease_until}"
    yield from report_rows(rows.filter(has_ended & is_in_use), "{status}: an end, and no lease", found)
    yield from report_rows(rows.filter(~has_ended & Q(ended_at__isnull=False)), "{status}: no end", found)


def _find_wrong_reasons(model: LeasedModel) -> Iterator[Violation]:
    rows = model.objects.order_by("pk")
    yield from report_rows(rows.filter(status__in=("blocked", "failed"), reason=""), "{status}: a reason", "none")
    needless = rows.exclude(reason="").exclude(status__in=("waiting", "blocked", "failed"))
    yield from report_rows(needless, "{status}: no reason", "{reason}")


def _find_wrong_leases(model: LeasedModel) -> Iterator[Violation]:
    unowned = model.objects.order_by("pk").filter(Q(lease_owner="") | Q(fence=0), lease_until__isnull=False)
    for code, owner, fence in iter_rows(unowned.values_list("code", "lease_owner", "fence")):
        found = f"owner {owner or 'none'}, fence {fence}"
        yield build_violation(model, code, "a lease with an owner and a fence", found)
    not_leased = model.objects.order_by("pk").filter(status="running", lease_owner="")
    yield from report_rows(not_leased, "running: a worker that has leased it", "no worker")


_PROMISES_PER_MODEL: tuple[tuple[str, str, Callable[[LeasedModel], Iterator[Violation]]], ...] = (
    ("ends of {}s", "an ended row has a time and no lease; others have no end", _find_wrong_ends),
    ("reasons of {}s", "a failed, blocked or waiting row has a reason, and no other", _find_wrong_reasons),
    ("leases of {}s", "a leased row has an owner and a fence", _find_wrong_leases),
)
_LEASED_MODELS: tuple[LeasedModel, ...] = (Episode, Twin, CodeEpisode, Job)
WORK_CHECKS = tuple(
    Check(name.format(model._meta.verbose_name), promise, model, partial(find_violations, model))
    for name, promise, find_violations in _PROMISES_PER_MODEL
    for model in _LEASED_MODELS
)


_OWNERS = ("episode", "twin", "code_episode", "job")
_TURN_COLUMNS = (*(f"{kind}_id" for kind in _OWNERS), "number", "role", "speaker", "turn")
_END_STATES = ("answered", "refused", "failed", "lost", "fenced")


@build_check("owners of calls", ModelCall)
def check_call_owners() -> Iterator[Violation]:
    """A call has the run of its episode, twin, code episode or job, and a fence that was issued."""
    for kind in _OWNERS:
        calls = ModelCall.objects.order_by("pk").filter(**{f"{kind}__isnull": False})
        wrong_run = calls.exclude(run=F(f"{kind}__run"))
        yield from report_rows(wrong_run, f"the run of its {kind}", "{run__code}")
        unknown_fence = calls.filter(fence__gt=F(f"{kind}__fence"))
        yield from report_rows(unknown_fence, f"a fence up to {{{kind}__fence}}", "{fence}")


@build_check("attempts of calls", ModelCall)
def check_call_attempts() -> Iterator[Violation]:
    """The attempts of a turn are numbered from 1, and no turn was answered twice."""
    answered = Count("pk", filter=Q(state__in=("answered", "refused")))
    turns = ModelCall.objects.order_by(*_TURN_COLUMNS).values(*_TURN_COLUMNS).annotate(
        n=Count("pk"), first=Min("attempt"), last=Max("attempt"), answers=answered
    )  # fmt: skip
    for turn in iter_rows(turns.exclude(first=1, last=F("n"), answers__lte=1)):
        turn_name = ".".join(str(turn[name]) for name in _TURN_COLUMNS if turn[name] is not None)
        attempts = f"{turn['n']} attempts, {turn['first']} to {turn['last']}, {turn['answers']} answered"
        yield build_violation(ModelCall, turn_name, f"attempts 1 to {turn['n']}, at most one answered", attempts)


@build_check("ends of calls", ModelCall)
def check_call_ends() -> Iterator[Violation]:
    """An ended call has its time, and an answered one its reply."""
    has_ended = Q(state__in=_END_STATES)
    lacks_reply = Q(state__in=("answered", "refused"), reply__isnull=True) | Q(state="failed", error_class="")
    broken = ModelCall.objects.order_by("pk").filter(has_ended ^ Q(ended_at__isnull=False) | lacks_reply)
    expected = "{state}, with its time and its reply or error"
    yield from report_rows(broken, expected, "ended {ended_at}, no reply or error")


@build_check("costs of calls", ModelCall)
def check_call_costs() -> Iterator[Violation]:
    """The cost of a call is its tokens times the stored price, unless the provider reported the cost."""
    fields = ("code", "cost", "price", "reply", *Usage._fields)
    calls = ModelCall.objects.order_by("pk").filter(state__in=("answered", "refused", "fenced"))
    for code, cost, price, reply, *token_counts in iter_rows(calls.defer("request").values_list(*fields)):
        usage = Usage(*token_counts) if token_counts[0] is not None else None
        expected = pricing.compute_cost(usage, pricing.price_from_json(price))
        # Some providers report the cost in their reply; it is stored instead of the computed one.
        if cost != expected and b'"cost"' not in bytes(reply or b""):
            yield build_violation(ModelCall, code, f"${expected}", f"${cost}")


@build_check("budgets of runs", Run)
def check_run_budgets() -> Iterator[Violation]:
    """The budget counters of a run equal the sums of its logged calls."""
    # A budget that was set while calls were under way is counted again by the next sweep, so runs with work left
    # are skipped.
    live = Q(episodes__status__in=Leased.RUNNABLE) | Q(twins__status__in=Leased.RUNNABLE)
    live |= Q(jobs__status__in=Leased.RUNNABLE) | Q(code_episodes__status__in=Leased.RUNNABLE)
    capped = Run.objects.filter(Q(max_cost__isnull=False) | Q(max_tokens__isnull=False))
    for run in iter_rows(capped.exclude(pk__in=Run.objects.filter(live).values("pk")).order_by("pk")):
        totals = run_usage.check_budget_counters(run)
        if not totals.is_consistent:
            expected = f"{totals.ledger_tokens} tokens and ${totals.ledger_cost}"
            yield build_violation(Run, run.code, expected, f"{totals.tokens} tokens and ${totals.cost}")


@build_check("texts of calls", ModelCall)
def check_request_texts() -> Iterator[Violation]:
    """Every text that a stored request refers to is in the text store."""
    known: set[str] = set()
    for code, request in iter_rows(ModelCall.objects.order_by("pk").values_list("code", "request")):
        # Requests of an episode repeat most texts, so each is queried once.
        missing = call_log.collect_hashes(request) - known
        stored = set(CallText.objects.filter(pk__in=missing).values_list("pk", flat=True)) if missing else set()
        known |= stored
        for sha in sorted(missing - stored):
            yield build_violation(ModelCall, code, f"the text {sha}", "none")


CALL_CHECKS = (
    check_call_owners, check_call_attempts, check_call_ends, check_call_costs, check_run_budgets, check_request_texts,
)  # fmt: skip


_CHUNKS_PER_FETCH = 8  # chunks of 256 KiB each


@build_check("data of experiments", Experiment)
def check_experiments() -> Iterator[Violation]:
    """An experiment matches the digest of its data and of a version of the offline rules."""
    for slug, data, sha in iter_rows(Experiment.objects.order_by("pk").values_list("slug", "data", "sha256")):
        if not load_files.has_digest(data, sha):
            yield build_violation(Experiment, slug, sha or "no digest", load_files.hash_experiment(data))


CONTENT_CHECKS = check_experiments, *tuple(
    build_digest_check(*details)
    for details in (
        (
            "data of actions", "an action of the catalogue matches the digest of its data",
            CatalogueEntry, ("name", "data", "sha256"), hash_json, ~Q(sha256=""),
        ),
        (
            "setups of runs", "a run matches the digest of its run configuration",
            Run, ("code", "setup", "setup_sha256"), run_config.hash_config,
        ),
        (
            "texts of prompt sets", "a prompt set matches the digest of its texts",
            PromptSet, ("name", "files", "sha256"), prompt_sets.compute_hash,
        ),
        (
            "stored texts of calls", "a text in the text store matches the digest that it is stored under",
            CallText, ("sha256", "text", "sha256"), hash_text,
        ),
    )
)  # fmt: skip


@build_check("pieces of files", JobFile)
def check_file_chunks() -> Iterator[Violation]:
    """A job's file is complete: its chunks are in order and match its size and digest."""
    chunk_rows = JobChunk.objects.order_by("file_id", "number").values_list("file_id", "number", "data")
    contents: dict[int, tuple[int, str, str]] = {}
    for file, chunks in groupby(chunk_rows.iterator(chunk_size=_CHUNKS_PER_FETCH), lambda piece: piece[0]):
        contents[file] = _summarise_chunks(chunks)
    finished = JobFile.objects.order_by("pk").filter(~Q(sha256=""))
    for pk, name, size, sha in iter_rows(finished.values_list("pk", "name", "size", "sha256")):
        stored_size, digest, problem = contents.get(pk, (0, hashlib.sha256().hexdigest(), ""))
        if problem or (stored_size, digest) != (size, sha):
            found = problem or f"{stored_size} bytes, {digest}"
            yield build_violation(JobFile, f"{pk} {name}", f"{size} bytes, {sha}", found)


def _summarise_chunks(chunks: Iterator[tuple[int, int, Any]]) -> tuple[int, str, str]:
    """Return the size and digest of the chunks, and a description of any that is missing or has the wrong size."""
    digest, size, last_size, problem = hashlib.sha256(), 0, job_files.PIECE_SIZE, ""
    for index, (_, number, data) in enumerate(chunks):
        # Every chunk but the last one is full, so a shorter one in the middle means lost bytes.
        if number != index or last_size != job_files.PIECE_SIZE:
            problem = problem or f"chunk {number} at position {index}, after one of {last_size} bytes"
        last_size = len(data)
        size += last_size
        digest.update(bytes(data))
    return size, digest.hexdigest(), problem


FILE_CHECKS = (*CONTENT_CHECKS, check_file_chunks)


_Migration = MigrationRecorder.Migration
# Expected state -> query for constraints, indexes and triggers that exist but that the server does not enforce.
_NOT_ENFORCED = {
    "a validated constraint": """
        SELECT conrelid::regclass::text, conname, 'not validated' FROM pg_constraint
        WHERE NOT convalidated AND connamespace = current_schema()::regnamespace""",
    "a valid index": """
        SELECT indrelid::regclass::text, indexrelid::regclass::text, 'invalid' FROM pg_index
        JOIN pg_class ON pg_class.oid = indexrelid
        WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace""",
    "an enabled trigger": """
        SELECT tgrelid::regclass::text, tgname, 'disabled' FROM pg_trigger
        JOIN pg_class ON pg_class.oid = tgrelid
        WHERE tgenabled = 'D' AND relnamespace = current_schema()::regnamespace""",
}


@build_check("applied migrations", _Migration)
def check_migrations() -> Iterator[Violation]:
    """All migrations of this version are applied, and no others."""
    applied = MigrationRecorder(connection).applied_migrations()
    for app, name in checks.find_missing_migrations(applied):
        yield build_violation(_Migration, f"{app}.{name}", "applied: run manage.py migrate", "not applied")
    for app, name in checks.find_unknown_migrations(applied):
        expected = "migrations that this version knows"
        yield build_violation(_Migration, f"{app}.{name}", expected, "one that it does not know")


@build_check("constraints of tables", _Migration)
def check_constraints() -> Iterator[Violation]:
    """Every constraint of the models exists in the database."""
    for model in _list_models():
        names, unique = _list_constraints(model._meta.db_table)
        for name in sorted({one.name for one in model._meta.constraints} - names):
            yield build_violation(model, name, "this constraint", "none of its name")
        for field in model._meta.local_fields:
            if field.unique and not field.primary_key and field.column not in unique:
                yield build_violation(model, str(field.column), "a unique constraint", "none")


@build_check("integrity of tables", _Migration)
def check_integrity() -> Iterator[Violation]:
    """The database reports no damage of its tables."""
    if connection.vendor == "sqlite":
        for (message,) in fetch_rows("PRAGMA integrity_check(100)"):
            if message != "ok":
                yield build_violation(_Migration, "", "ok from PRAGMA integrity_check", message)
        return
    for expected, query in _NOT_ENFORCED.items():
        for table, name, found in fetch_rows(query):
            yield Violation(table, name, expected, found)


@build_check("foreign keys", _Migration)
def check_references() -> Iterator[Violation]:
    """Every reference points to an existing row."""
    if connection.vendor == "sqlite":
        for table, row, parent, _ in fetch_rows("PRAGMA foreign_key_check"):
            yield Violation(table, str(row), f"a row of {parent} that it refers to", "none")
        return
    # PostgreSQL has no such command: foreign keys can be violated while triggers are disabled, as in a restore.
    for model in _list_models():
        for field in model._meta.local_fields:
            if isinstance(field, models.ForeignKey):
                yield from _find_orphans(model, field)


def _list_constraints(table: str) -> tuple[set[str], set[str]]:
    """Return the names of a table's constraints, and the columns that are unique by themselves."""
    if connection.vendor == "sqlite":
        # SQLite keeps the names of constraints only in the SQL text of the table.
        definitions = fetch_rows(f"SELECT name, coalesce(sql, '') FROM sqlite_master WHERE tbl_name = '{table}'")
        named = {name for _, sql in definitions for name in re.findall(r'CONSTRAINT "(\w+)"', sql)}
        unique = fetch_rows(f"""
            SELECT max(c.name) FROM pragma_index_list('{table}') AS i, pragma_index_info(i.name) AS c
            WHERE i."unique" AND NOT i.partial GROUP BY i.name HAVING count(*) = 1""")
        return named.union(name for name, _ in definitions), {column for (column,) in unique}
    with connection.cursor() as cursor:
        constraints = connection.introspection.get_constraints(cursor, table)
    unique_columns = [one["columns"] for one in constraints.values() if one["unique"]]
    return set(constraints), {columns[0] for columns in unique_columns if len(columns) == 1}


def _find_orphans(model: type[Model], field: Any) -> Iterator[Violation]:
    parent = field.related_model
    parents = parent._base_manager.filter(**{field.target_field.attname: OuterRef(field.attname)})
    orphans = model._base_manager.filter(~Exists(parents), **{f"{field.attname}__isnull": False})
    expected, found = f"a row of {parent._meta.db_table} that it refers to", f"{field.attname} {{{field.attname}}}"
    yield from report_rows(orphans.order_by("pk"), expected, found, "{pk}")


def _list_models() -> list[type[Model]]:
    all_models = apps.get_models(include_auto_created=True)
    return [model for model in all_models if model._meta.managed and not model._meta.proxy]


DATABASE_CHECKS = (check_migrations, check_constraints, check_integrity, check_references)
