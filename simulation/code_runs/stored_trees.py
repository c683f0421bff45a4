"""Workspaces in the database: each file's content once, each workspace as a list of paths and digests."""

import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from simulation.lab.errors import LabError
from simulation.models import Blob, Tree
from simulation.replication import episode_rules
from simulation.replication.trees import Files, hash_blob, hash_entries

# A tree or blob that is stored again gets a new time only after this long. The clean-up removes nothing so young, which is why
# a worker can rely on a tree from the moment it stored it until it commits the row that names it.
_FRESH = timedelta(days=1)
_MAX_CACHED_BYTES = 32 * 2**20
_CACHED_SECONDS = 3600.0  # far less than _FRESH
_cache_lock = threading.Lock()
_contents: "OrderedDict[str, bytes]" = OrderedDict()  # blobs that this process used last, the latest at the end
_cached_bytes = 0
_entries: "OrderedDict[str, tuple[list[list[str]], float]]" = OrderedDict()  # trees, and until when (monotonic seconds)


class DamagedTreeError(LabError):
    """A stored file is missing or differs from its digest."""


def store_tree(files: Files) -> Tree:
    """Store a workspace, unless it is stored, and return its row. Only contents that are new take space."""
    contents = {hash_blob(content): content for content in files.values()}
    entries = [[path, hash_blob(content)] for path, content in sorted(files.items())]
    tree = Tree(sha256=hash_entries(entries), entries=entries, files=len(files), bytes=sum(map(len, files.values())))
    fresh_since = timezone.now() - _FRESH
    if not Tree.objects.filter(pk=tree.sha256, stored_at__gt=fresh_since).exists():
        with transaction.atomic():
            stored = _renew_rows(Blob, contents, fresh_since)
            new = [
                Blob(sha256=sha, size=len(content), packed=zlib.compress(content))
                for sha, content in sorted(contents.items())
                if sha not in stored
            ]
            # Two workers may store the same content at once; the hash is the key, so either row will do.
            Blob.objects.bulk_create(new, ignore_conflicts=True)
            if not _renew_rows(Tree, [tree.sha256], fresh_since):
                Tree.objects.bulk_create([tree], ignore_conflicts=True)
    for sha, content in contents.items():
        _cache_content(sha, content)
    _cache_entries(tree.sha256, entries)
    return tree


def load_files(tree_sha256: str) -> dict[str, bytes]:
    """Return the files of a stored workspace, with at most two queries. Raises DamagedTreeError."""
    entries = _find_entries(tree_sha256)
    if entries is None:
        entries = Tree.objects.values_list("entries", flat=True).filter(pk=tree_sha256).first()
        if entries is None or hash_entries(entries) != tree_sha256:
            raise DamagedTreeError(f"the workspace {tree_sha256[:12]} is missing or was changed")
        _cache_entries(tree_sha256, entries)
    contents = load_blobs({sha for _, sha in entries})
    return {path: contents[sha] for path, sha in entries}


def has_room(trees: QuerySet[Tree], files: Files) -> bool:
    """Return whether a workspace can be stored beside these, as `episode_rules.has_room` does, without loading contents.

    A small workspace costs no query.
    """
    added = sum(map(len, files.values()))
    if added <= episode_rules.SMALL_WORKSPACE_BYTES:
        return True
    if (trees.aggregate(total=Sum("bytes"))["total"] or 0) + added <= episode_rules.MAX_STORED_BYTES:
        return True
    stored = {sha for entries in trees.values_list("entries", flat=True).iterator(chunk_size=100) for _, sha in entries}
    sizes = {sha: len(content) for content in files.values() if (sha := hash_blob(content)) not in stored}
    if not sizes:
        return True
    total = sum(sizes.values())
    pending = iter(sorted(stored))
    while part := list(islice(pending, 500)):
        total += Blob.objects.filter(pk__in=part).aggregate(total=Sum("size"))["total"] or 0
    return total <= episode_rules.MAX_STORED_BYTES


def load_file(tree_sha256: str, path: str) -> bytes | None:
    """Return one file of a stored workspace, or None if it has no such file."""
    entries = Tree.objects.values_list("entries", flat=True).get(pk=tree_sha256)
    sha = dict(entries).get(path)
    return load_blobs([sha])[sha] if sha else None


def load_blobs(digests: Iterable[str]) -> dict[str, bytes]:
    """Return contents by digest, with one query for those that this process has not cached. Raises DamagedTreeError."""
    wanted = set(digests)
    with _cache_lock:
        contents = {sha: _contents[sha] for sha in wanted if sha in _contents}
        for sha in contents:
            _contents.move_to_end(sha)
    for sha, packed in Blob.objects.filter(pk__in=wanted - set(contents)).values_list("sha256", "packed"):
        content = unpack_blob(packed)
        if hash_blob(content) != sha:
            raise DamagedTreeError(f"the stored file {sha[:12]} was changed")
        contents[sha] = content
        _cache_content(sha, content)
    if missing := wanted - set(contents):
        raise DamagedTreeError(f"the stored file {min(missing)[:12]} is missing")
    return contents


def unpack_blob(packed: Any) -> bytes:
    """Return the content of a blob's column. Raises DamagedTreeError."""
    try:
        return zlib.decompress(bytes(packed))
    except zlib.error as error:
        raise DamagedTreeError(f"a stored file cannot be unpacked: {error}") from error


def remove_unused_trees() -> int:
    """Remove workspaces that no row names and that are older than WETBENCH_TREE_DAYS, and their files. Return how many."""
    # They are left by workers that died, or that another worker overtook, between storing a workspace and its step.
    cutoff = timezone.now() - timedelta(days=settings.TREE_DAYS)
    unused = Tree.objects.filter(stored_at__lt=cutoff).exclude(_is_named())
    with transaction.atomic():
        rows = dict(unused.values_list("sha256", "entries")[:1000])
        if not rows:
            return 0
        # The age is part of the DELETE: a worker may have stored one of them again since the SELECT.
        Tree.objects.filter(pk__in=rows, stored_at__lt=cutoff)._raw_delete(using=unused.db)
        candidates = {sha for entries in rows.values() for _, sha in entries}
        for entries in Tree.objects.values_list("entries", flat=True).iterator(chunk_size=500):
            candidates.difference_update(sha for _, sha in entries)
        Blob.objects.filter(pk__in=candidates, stored_at__lt=cutoff)._raw_delete(using=unused.db)
    with _cache_lock:
        for sha in rows:
            _entries.pop(sha, None)
    return len(rows)


def _is_named() -> Q:
    """Return the condition that a row of any table refers to the tree."""
    condition = Q()
    relations: list[Any] = Tree._meta.get_fields(include_hidden=True)
    for relation in relations:
        if relation.auto_created and relation.one_to_many:
            rows = relation.related_model._base_manager.filter(**{relation.field.name: OuterRef("pk")})
            condition |= Q(Exists(rows))
    return condition


def _renew_rows(
    model: type[Blob] | type[Tree], digests: Iterable[str] | Mapping[str, Any], fresh_since: Any
) -> set[str]:
    """Renew `stored_at` of these rows unless it is recent, and return the digests of those that exist."""
    times = dict(model.objects.filter(pk__in=list(digests)).values_list("sha256", "stored_at"))
    if old := sorted(sha for sha, stored_at in times.items() if stored_at <= fresh_since):
        # In the order of keys, so that two workers cannot wait for each other.
        locked = model.objects.filter(pk__in=old).order_by("pk").select_for_update().values_list("pk", flat=True)
        renewed = set(locked)
        model.objects.filter(pk__in=renewed).update(stored_at=timezone.now())
        return set(times) - (set(old) - renewed)  # the clean-up may have removed one in between
    return set(times)


def _cache_content(sha: str, content: bytes) -> None:
    global _cached_bytes
    with _cache_lock:
        if sha not in _contents:
            _contents[sha] = content
            _cached_bytes += len(content)
        _contents.move_to_end(sha)
        while _cached_bytes > _MAX_CACHED_BYTES:
            _, dropped = _contents.popitem(last=False)
            _cached_bytes -= len(dropped)


def _cache_entries(sha: str, entries: list[list[str]]) -> None:
    if connection.in_atomic_block:  # a transaction could still be rolled back, and with it the tree
        return
    with _cache_lock:
        _entries[sha] = entries, time.monotonic() + _CACHED_SECONDS
        _entries.move_to_end(sha)
        while len(_entries) > 500:
            _entries.popitem(last=False)


def _find_entries(sha: str) -> list[list[str]] | None:
    with _cache_lock:
        entries, until = _entries.get(sha, (None, 0.0))
        return entries if time.monotonic() < until else None
