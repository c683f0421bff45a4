"""The builder of studies: four steps, preview of items and assignments, copying, deleting."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from ratings.models import Assignment, Item, Rater, Study, StudyEvent
from ratings.protocol import study_protocol
from ratings.studies import StudyError, assignment_preview, lifecycle, protocol_words
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db

QUESTION = {"name": "Small study", "kind": "transition_plausibility"}
ITEMS = {"count-offline-none": 4, "count-offline-obvious": 3, "count-offline-subtle": 3, "vetting": "rules", "seed": 7}
RATERS = {
    "design": "balanced", "ratings_per_item": 2, "raters": 5, "practice": 3, "repeats": 20, "repeat_distance": 2,
    "lease_minutes": 30, "stop": "complete", "withdrawal": "keep",
}  # fmt: skip
SCREEN = {"layouts": ["plain", "aligned"], "context": ["off"], "marks": ["off"], "by": "rater"}


def text(answer: Any) -> str:
    return str(answer.content.decode())


def at(name: str, study: Study, *more: str) -> str:
    return reverse(f"ratings:{name}", args=[study.slug, *more])


def drafted(by: User, **changes: Any) -> Study:
    return lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(**changes)), by)


def test_builder_creates_the_same_study_as_a_document(staff: Client) -> None:
    run_factory.create_pool()
    new = reverse("ratings:new_study")
    answer = staff.post(new, {"by": "form", "do": "next", **QUESTION})
    assert answer.url == "/studies/small-study/build/items/"
    for part, onward in ((ITEMS, "raters/"), (RATERS, "screen/"), (SCREEN, "small-study/")):
        answer = staff.post(answer.url, {**part, "do": "next"})
        assert answer.status_code == 302
        assert answer.url.endswith(onward)
    by_steps = Study.objects.get()
    document = json.dumps({**by_steps.protocol, "slug": "by-text"})
    staff.post(new, {"by": "document", "do": "create", "text": document})
    sent = SimpleUploadedFile("study.json", document.replace("by-text", "by-file").encode())
    staff.post(new, {"by": "document", "do": "create", "file": sent})
    made = [{**row.protocol, "slug": ""} for row in Study.objects.all()]
    assert len(made) == 3
    assert made[0] == made[1] == made[2]
    protocol = study_protocol.load_protocol(by_steps.protocol)
    assert (protocol.raters, protocol.repeats, protocol.display.layouts) == (5, 0.2, ("plain", "aligned"))
    assert (by_steps.ratings_per_item, by_steps.seed, by_steps.created_by.username) == (2, 7, "ada")
    opened = staff.post(at("open_study", by_steps), follow=True)
    assert "The study is open." in text(opened)
    # 10 items by 2 raters each; a fifth of each rater's 4 items again is 1 for each of 5
    assert Assignment.objects.filter(occasion=1).count() == 20
    assert Assignment.objects.filter(occasion=2).count() == 5


def test_builder_step_is_saved_separately_and_shows_saved_values(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada)
    staff.post(at("build", study, "raters"), {**RATERS, "deadline": "2027-03-31", "feedback": "on", "do": "save"})
    staff.post(at("build", study, "screen"), {**SCREEN, "context": ["off", "on"], "do": "save"})
    page = text(staff.get(at("build", study, "raters")))
    for shown in ('name="raters" value="5"', 'name="repeats" value="20"', 'value="2027-03-31"'):
        assert shown in page
    assert re.search(r'name="feedback"[^>]*checked', page)
    page = text(staff.get(at("build", study, "screen")))
    assert len(re.findall(r'name="(?:layouts|context)" value="\w+" checked', page)) == 4
    study.refresh_from_db()
    assert study.deadline.isoformat() == "2027-03-31"
    assert [source["count"] for source in study.protocol["sources"]] == [4, 3, 3]
    assert list(study.events.values_list("kind", "data")) == [
        ("created", {}),
        ("edited", {"part": "raters"}),
        ("edited", {"part": "screen"}),
    ]


@pytest.mark.parametrize(
    ("step", "wrong", "field", "said"),
    [
        ("question", {**QUESTION, "name": ""}, "name", "This field is required"),
        ("question", {**QUESTION, "slug": "Not a Slug"}, "slug", "small letters and digits"),
        ("question", {**QUESTION, "slug": "taken"}, "slug", "is the slug of another study"),
        ("items", {**ITEMS, "count-offline-none": -1}, "count-offline-none", "greater than or equal to 0"),
        ("items", {**ITEMS, "experiments": ["moon"]}, "experiments", "not one of the available choices"),
        ("raters", {**RATERS, "ratings_per_item": 0}, "ratings_per_item", "greater than or equal to 1"),
        ("raters", {**RATERS, "raters": 1}, "raters", "need at least 2 raters"),
        ("raters", {**RATERS, "design": "crossed"}, "raters", "every rater rates every item: 2"),
        ("raters", {**RATERS, "stop": "deadline"}, "deadline", "needs one"),
        ("raters", {**RATERS, "stop": "ratings"}, "stop_ratings", "needs one"),
        ("raters", {**RATERS, "items_per_rater": 1}, "items_per_rater", "need at least 4"),
        ("screen", {**SCREEN, "layouts": []}, "layouts", "This field is required"),
        ("screen", {**SCREEN, "marks": ["often"]}, "marks", "not one of the available choices"),
    ],
)
def test_builder_step_with_errors_names_the_field_and_saves_nothing(
    staff: Client, ada: User, step: str, wrong: dict[str, Any], field: str, said: str
) -> None:
    run_factory.create_pool()
    drafted(ada, slug="taken")
    study = drafted(ada)
    before = study.protocol
    answer = staff.post(at("build", study, step), {**wrong, "do": "next"})
    assert answer.status_code == 422
    assert said in " ".join(answer.context["form"].errors[field])
    assert "Please correct the following" in text(answer)
    study.refresh_from_db()
    assert study.protocol == before


def test_builder_step_can_be_saved_while_another_step_is_incomplete(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada)
    answer = staff.post(at("build", study, "question"), {**QUESTION, "kind": "evidence_sufficiency", "do": "save"})
    assert answer.status_code == 302
    page = text(staff.get(answer.url))
    assert "This draft cannot be opened yet." in page
    assert "sources[1].perturbation: is &#x27;obvious&#x27;; allowed: none" in page
    refused = text(staff.post(at("open_study", study), follow=True))
    assert "The study cannot be opened" in refused
    # the source table of evidence has one column; saving it drops what no longer fits
    staff.post(at("build", study, "items"), {**ITEMS, "do": "save"})
    study.refresh_from_db()
    assert [source["perturbation"] for source in study.protocol["sources"]] == ["none"]


def test_builder_selecting_none_or_all_experiments_means_all(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada)
    for ticked, stored in (([], "all"), (["caffeine"], ["caffeine"]), (["caffeine", "zebrafish"], "all")):
        staff.post(at("build", study, "items"), {**ITEMS, "experiments": ticked, "do": "save"})
        study.refresh_from_db()
        assert study.protocol["experiments"] == stored


def test_builder_source_table_shows_available_items(staff: Client, ada: User) -> None:
    run_factory.create_pool(10)
    run_factory.create_evidence_pool(3, cast="offline-lapses")
    cells = dict(staff.get(at("build", drafted(ada), "items")).context["rows"])
    assert [one.available for one in cells["offline"]] == [10, 10, 10]
    assert [one.available for one in cells["offline-random"]] == [0, 0, 0]
    evidence = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_evidence_protocol()), ada)
    cells = dict(staff.get(at("build", evidence, "items")).context["rows"])
    # two episodes were submitted in the pool of ten, but no classifier judged them
    assert [[one.available for one in cells[cast]] for cast in ("offline", "offline-lapses")] == [[0], [3]]


def test_builder_saves_the_step_and_shows_item_availability(staff: Client, ada: User) -> None:
    run_factory.create_pool(10)
    study = drafted(ada)
    sent = {**ITEMS, "count-offline-subtle": 400, "do": "count"}
    answer = staff.post(at("build", study, "items"), sent, follow=True)
    assert "too few" in text(answer)
    assert [(one.source.count, one.have) for one in answer.context["stock"]] == [(4, 10), (3, 10), (400, 10)]
    # 403 of 407 items carry an error
    assert (answer.context["sizes"].planted, answer.context["sizes"].percent_planted) == (403, 99)
    assert "Item availability" not in text(staff.get(at("build", study, "items")))


def test_checking_a_study_document_creates_no_study(staff: Client) -> None:
    run_factory.create_pool(10)
    sent = {"by": "document", "do": "check", "text": json.dumps(study_factory.build_protocol())}
    answer = staff.post(reverse("ratings:new_study"), sent)
    assert answer.status_code == 200
    assert "Items available for" in text(answer)
    assert not Study.objects.exists()


def test_study_without_items_remains_a_draft_that_cannot_be_opened(staff: Client, ada: User) -> None:
    study = drafted(ada, sources=[])
    page = text(staff.get(at("study", study)))
    assert "It has no items yet." in page
    assert re.search(r"<button[^>]*disabled[^>]*>Open the study", page)
    assert "add a source, or import items" in text(staff.post(at("open_study", study), follow=True))


def test_builder_rejects_changes_to_an_opened_study(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada)
    lifecycle.open_study(study, by=ada)
    for step in ("question", "items", "raters", "screen"):
        answer = staff.post(at("build", study, step), {**QUESTION, "name": "Other", "do": "save"}, follow=True)
        assert "The protocol can no longer be changed" in text(answer)
    with pytest.raises(StudyError, match="only a study that is draft can be edited"):
        lifecycle.edit_draft(study, study_protocol.load_protocol(study.protocol))
    study.refresh_from_db()
    assert study.name == "Small study"


def test_builder_unknown_step_returns_404(staff: Client, ada: User) -> None:
    assert staff.get(at("build", drafted(ada), "colours")).status_code == 404


def test_assignment_preview_equals_the_plan_and_stores_nothing(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada, raters=5, repeats=0.25, repeat_distance=1)
    page = text(staff.get(at("matrix", study)))
    assert not Item.objects.exists()
    assert not Rater.objects.exists()
    seen = assignment_preview.preview_assignments(study)
    assert (seen.items, seen.ratings, len(seen.lines)) == (10, 20, 5)
    assert [(source.name, source.items) for source in seen.sources] == [
        ("offline", 4), ("offline, obvious errors", 3), ("offline, subtle errors", 3),
    ]  # fmt: skip
    # 8, 6 and 6 ratings of the sources among 5 raters: nobody has more than one rating more than another rater
    assert [(source.fewest, source.most) for source in seen.sources] == [(1, 2), (1, 2), (1, 2)]
    # 20 ratings among 5 raters: 4 each, and a quarter of them again
    assert {(line.items, line.repeats, line.done) for line in seen.lines} == {(4, 1, 0)}
    # two raters share 10 of the pairs (5 choose 2), 10 items are shared by two each: one item for every pair
    assert seen.shared == (1, 1)
    assert seen.picture is not None
    # a square for every rating, a smaller one for each of the five repeats
    assert (seen.picture.waiting.count("M"), seen.picture.repeats.count("M"), seen.picture.done) == (20, 5, "")
    row = re.search(r"<tr><th scope=\"row\">offline, obvious errors</th>(.*?)</tr>", page)
    assert row and re.findall(r">([^<]+)</td>", row[1]) == ["3", "1 to 2"]


def test_assignment_preview_is_the_plan_that_opening_makes(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada, raters=5, repeats=0.25, repeat_distance=1)
    previewed = assignment_preview.preview_assignments(study)
    lifecycle.open_study(study, by=ada)
    opened = assignment_preview.load_assignments(study)
    assert opened.lines == previewed.lines
    # The columns of both pictures are in random order; the sets of raters of the items are the same.
    planned, assigned = (sorted(_list_columns(matrix)) for matrix in (previewed, opened))
    assert planned == assigned


def _list_columns(matrix: assignment_preview.AssignmentMatrix) -> list[tuple[int, ...]]:
    """Return the rows in which each column of the picture has a square."""
    assert matrix.picture is not None
    rows_by_column: dict[int, list[int]] = {}
    for x, y in re.findall(r"M(\d+) (\d+)h9", matrix.picture.waiting):
        rows_by_column.setdefault(int(x), []).append(int(y))
    return [tuple(sorted(rows)) for rows in rows_by_column.values()]


def test_assignment_preview_does_not_reveal_which_rater_gets_which_source(staff: Client, ada: User) -> None:
    """The open study has the same assignments: a plan by rater and source would unblind items that few raters share."""
    run_factory.create_pool()
    study = drafted(ada, raters=5)
    table = text(staff.get(at("matrix", study))).partition("By rater")[2]
    assert "R01" in table
    assert "offline" not in table
    assert {key for line in staff.get(at("plan_json", study)).json()["lines"] for key in line} == {
        "rater", "items", "repeats"
    }  # fmt: skip


def test_assignment_preview_shows_the_same_problems_as_opening(staff: Client, ada: User) -> None:
    run_factory.create_pool(2)
    page = text(staff.get(at("matrix", drafted(ada))))
    assert "the pool holds 2" in page


def test_assignments_of_an_open_study_show_no_source(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada)
    lifecycle.open_study(study, by=ada)
    study_factory.rate_everything(study_factory.fill_rater_place(study, "R01"))
    page = text(staff.get(at("matrix", study)))
    assert "obvious" not in page
    assert "offline" not in page
    seen = assignment_preview.load_assignments(study)
    assert seen.sources == ()
    assert seen.picture is not None
    assert seen.picture.done.count("M") == next(line.done for line in seen.lines if line.label == "R01") > 0


def test_pool_study_assigns_no_items_in_advance(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada, design="pool", raters=3)
    seen = assignment_preview.preview_assignments(study)
    assert [line.items for line in seen.lines] == [0, 0, 0]
    assert (seen.picture, seen.shared) == (None, None)
    assert "raters of a pool study take items as they become free" in text(staff.get(at("matrix", study)))


def test_preview_shows_an_item_in_any_layout_without_its_source(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada)
    for layout in ("plain", "aligned", "balance", "confirm"):
        answer = staff.get(at("preview", study), {"layout": layout, "marks": "always", "context": "on", "item": 3})
        assert answer.status_code == 200
        assert answer.context["arm"]["layout"] == layout
        assert answer.context["number"] == 3
        assert not re.search("LEAK|obvious|subtle", text(answer))
    assert not Item.objects.exists()


@pytest.mark.parametrize("item", ["0", "-1", "9999", "x", "", "²", "1" * 5000])
def test_preview_of_an_unknown_item_shows_another_item(staff: Client, ada: User, item: str) -> None:
    run_factory.create_pool()
    answer = staff.get(at("preview", drafted(ada)), {"item": item, "layout": "x", "marks": "x", "context": "x"})
    assert answer.status_code == 200
    assert answer.context["number"] in (1, 12)


def test_preview_without_items_shows_a_message(staff: Client, ada: User) -> None:
    assert "No item to show yet" in text(staff.get(at("preview", drafted(ada, sources=[]))))


def test_duplicate_is_a_draft_with_the_same_protocol_and_no_ratings(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = drafted(ada)
    lifecycle.open_study(study, by=ada)
    lifecycle.revise_guide(study, "Mind the units.", ada)
    answer = staff.post(at("duplicate", study), follow=True)
    assert "This is the copy." in text(answer)
    copy = Study.objects.get(slug="small-study-copy")
    assert (copy.name, copy.status, copy.created_by) == ("Small study (copy)", "draft", ada)
    assert (copy.guide, copy.guide_version) == ("Mind the units.", 1)
    study.refresh_from_db()
    left = ("name", "slug", "guide")
    assert {k: v for k, v in copy.protocol.items() if k not in left} == {
        k: v for k, v in study.protocol.items() if k not in left
    }
    assert not copy.items.exists()
    assert not copy.raters.exists()
    assert lifecycle.duplicate_study(study, ada).slug == "small-study-copy-2"
    assert lifecycle.duplicate_study(copy, ada).slug == "small-study-copy-copy"


def test_duplicate_works_repeatedly_for_the_longest_name(ada: User) -> None:
    study = drafted(ada, name="n" * 120, slug="s" * 80)
    for _ in range(11):
        copy = lifecycle.duplicate_study(study, ada)
    assert copy.slug.endswith("-copy-11")
    assert len(copy.name) <= 120
    assert lifecycle.find_opening_problems(copy.protocol) == []


def test_draft_shows_impossible_repeats_before_opening(staff: Client, ada: User) -> None:
    run_factory.create_pool(20)
    sources = [{"cast": "offline", "perturbation": "none", "count": 16}]
    # 32 ratings by 6 raters: at most 6 items each, and nothing can be shown again 10 later
    study = drafted(ada, sources=sources, raters=6, repeats=0.1, repeat_distance=10)
    for page in (at("stock", study), at("study", study) + "?counted=1", at("build", study, "items") + "?counted=1"):
        assert "choose a gap of at most 5" in text(staff.get(page)), page
    good = drafted(ada, sources=sources, raters=6, repeats=0.2, repeat_distance=2, slug="good")
    assert "cannot be opened as it is" not in text(staff.get(at("stock", good)))


def test_evidence_draft_shows_no_settings_of_single_steps(ada: User) -> None:
    protocol = lifecycle.parse_protocol(study_factory.build_evidence_protocol())
    told = {fact.name for fact in protocol_words.describe_document(lifecycle.create_study(protocol, ada))}
    of_steps = {"Layout", "Goal and earlier steps", "Errors checked by", "Actions"}
    assert not told & of_steps
    assert {"Marks", "Items"} <= told
    assert of_steps <= {fact.name for fact in protocol_words.describe_document(drafted(ada))}


def test_only_a_draft_study_can_be_deleted(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    draft, study = drafted(ada, slug="draft"), drafted(ada)
    lifecycle.open_study(study, by=ada)
    asked = staff.get(at("delete_study", draft))
    assert "deleted permanently" in text(asked)
    assert "has been deleted" in text(staff.post(at("delete_study", draft), follow=True))
    assert "only a study that is draft can be deleted" in text(staff.post(at("delete_study", study), follow=True))
    assert list(Study.objects.values_list("slug", flat=True)) == ["small-study"]
    assert set(StudyEvent.objects.values_list("study__slug", flat=True)) == {"small-study"}
