"""Workspaces stored by content: what is stored once, what is found damaged, and what the clean-up removes."""

from datetime import timedelta

import pytest
from django.utils import timezone

from simulation.code_runs import stored_trees
from simulation.models import Blob, CodeEpisode, Tree
from simulation.replication import episode_rules
from simulation.replication.trees import hash_blob, hash_tree
from tests.support import code_episodes

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
FILES = {"code/a.py": b"x = 1\n", "data/t.csv": b"1,2\n", "copy.csv": b"1,2\n", "empty.txt": b""}


def make_old(days: float = 31) -> None:
    at = timezone.now() - timedelta(days=days)
    Tree.objects.update(stored_at=at)
    Blob.objects.update(stored_at=at)


def forget_cached() -> None:
    stored_trees._contents.clear()
    stored_trees._entries.clear()


def test_stored_workspace_is_returned_with_the_same_bytes() -> None:
    files = {**FILES, "raw.bin": bytes(range(256))}
    tree = stored_trees.store_tree(files)
    forget_cached()
    assert stored_trees.load_files(tree.pk) == files
    assert (tree.pk, tree.files, tree.bytes) == (hash_tree(files), 5, 270)


def test_equal_contents_are_stored_once() -> None:
    stored_trees.store_tree(FILES)
    stored_trees.store_tree({**FILES, "code/a.py": b"x = 2\n"})
    stored_trees.store_tree(FILES)
    assert (Tree.objects.count(), Blob.objects.count()) == (2, 4)


def test_workspaces_of_an_episode_have_room_until_their_distinct_contents_exceed_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(episode_rules, "MAX_STORED_BYTES", 1000)
    monkeypatch.setattr(episode_rules, "SMALL_WORKSPACE_BYTES", 100)
    data = {"data.csv": b"d" * 600}
    earlier = [{**data, "a": bytes([number]) * 100} for number in range(3)]
    for files in earlier:  # 600 + 3 * 100 bytes of distinct contents, 2,100 bytes in all
        stored_trees.store_tree(files)
    larger = {**data, "a": b"x" * 101}
    for files in ({**data, "a": b"x" * 100}, larger, {"a": b"x" * 100}, data):
        has_room = files is not larger
        assert stored_trees.has_room(Tree.objects.all(), files) is has_room
        assert episode_rules.has_room(earlier, files) is has_room


def test_changed_blob_is_reported_and_not_returned() -> None:
    tree = stored_trees.store_tree(FILES)
    other = Blob.objects.get(pk=hash_blob(b"1,2\n"))
    Blob.objects.filter(pk=hash_blob(b"x = 1\n")).update(packed=other.packed)
    forget_cached()
    with pytest.raises(stored_trees.DamagedTreeError, match=hash_blob(b"x = 1\n")[:12]):
        stored_trees.load_files(tree.pk)


def test_missing_blob_is_reported() -> None:
    tree = stored_trees.store_tree(FILES)
    Blob.objects.filter(pk=hash_blob(b"x = 1\n")).delete()
    forget_cached()
    with pytest.raises(stored_trees.DamagedTreeError, match="missing"):
        stored_trees.load_files(tree.pk)


def test_clean_up_removes_old_workspaces_that_no_row_names() -> None:
    stored_trees.store_tree(FILES)
    kept = stored_trees.store_tree({"code/a.py": b"x = 1\n"})
    make_old()
    stored_trees.store_tree({"code/a.py": b"x = 1\n"})  # stored again, so it is not old any more
    assert stored_trees.remove_unused_trees() == 1
    assert list(Tree.objects.all()) == [kept]
    assert list(Blob.objects.values_list("pk", flat=True)) == [hash_blob(b"x = 1\n")]


def test_clean_up_keeps_the_workspaces_of_code_episodes() -> None:
    episode = code_episodes.create_code_episode()
    before = set(Tree.objects.values_list("pk", flat=True))
    make_old()
    assert stored_trees.remove_unused_trees() == 0
    assert set(Tree.objects.values_list("pk", flat=True)) == before >= {episode.initial_id, episode.present_id}
    assert CodeEpisode.objects.count() == 1


def test_workspace_that_is_stored_again_survives_a_clean_up() -> None:
    stored_trees.store_tree(FILES)
    make_old()
    stored_trees.store_tree(FILES)
    assert stored_trees.remove_unused_trees() == 0
    assert Blob.objects.count() == 3
