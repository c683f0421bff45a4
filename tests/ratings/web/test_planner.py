"""The planner of a draft: expected precision, power and work; storing a plan; designs that cannot measure something."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ratings.models import ImportedItem, Study
from ratings.studies import StudyError, lifecycle, study_sizes
from ratings.studies.study_sizes import ItemClasses
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db
SOURCES = [
    {"cast": "offline", "perturbation": "none", "count": 20},
    {"cast": "offline", "perturbation": "obvious", "count": 10},
    {"cast": "offline", "perturbation": "subtle", "count": 10},
]
RECORDS: dict[str, Any] = {"kind": "evidence_sufficiency", "sources": [{"cast": "offline", "count": 12}]}


def draft_study(by: User, **changes: Any) -> Study:
    document = study_factory.build_protocol(**{"sources": SOURCES, "ratings_per_item": 3, "raters": 4, **changes})
    return lifecycle.create_study(lifecycle.parse_protocol(document), by)


def get_planner(study: Study) -> str:
    return reverse("ratings:planner", args=[study.slug])


def read_words(page: Any) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.content.decode()).split())


def test_planner_starts_with_the_numbers_of_the_draft(staff: Client, ada: User) -> None:
    study = draft_study(ada)
    page = staff.get(get_planner(study))
    form = page.context["form"]
    assert [form[name].value() for name in ("raters", "per_item", "items", "planted", "subtle_share")] == [
        4,
        3,
        40,
        50,
        50,
    ]
    # 40 items with 3 ratings are 120 ratings, 30 for each of 4 raters: 30 * 2 + 10 minutes
    assert (page.context["each"], round(page.context["hours"], 3)) == (30, round(70 / 60, 3))
    assert not page.context["is_changed"]
    assert Study.objects.get().protocol == study.protocol


def test_planner_shows_the_items_needed_for_kappa_and_the_area(staff: Client, ada: User) -> None:
    study = draft_study(ada, raters=12, ratings_per_item=4)
    page = staff.get(get_planner(study))
    needed = page.context["needed"]
    assert f"Kappa ± 0.10 {needed.kappa}" in read_words(page)
    assert f"AUC of confidence ± 0.05 {needed.auc}" in read_words(page)
    # Two raters have no interval for new raters, whatever the number of items.
    few = staff.get(get_planner(study), {"raters": 2, "per_item": 2})
    assert "Kappa ± 0.10 – more raters are needed" in read_words(few)


def test_planner_shows_wider_intervals_for_fewer_items(staff: Client, ada: User) -> None:
    study = draft_study(ada)
    lines = {line.name: line for line in staff.get(get_planner(study), {"items": 20}).context["lines"]}
    subtle = lines["Subtle errors detected"]
    points = [int(re.sub(r"\D", "", text)) for text in (subtle.margin, subtle.draft_margin)]
    assert points[0] > points[1] > 0
    # p = 0.5 * 0.93 + 0.25 * 0.1 + 0.25 * 0.4 = 0.59; between classes 0.1268, within them 0.2 * 0.11505; p(1-p) = 0.2419
    assert lines["Agreement, mean kappa"].value == "0.62"


def test_planner_stores_a_plan_and_shows_the_size_before(staff: Client, ada: User) -> None:
    study = draft_study(ada)
    plan = {"raters": 6, "per_item": 2, "items": 60, "planted": 20, "subtle_share": 75}
    page = staff.post(get_planner(study), plan, follow=True)
    stored = Study.objects.get().protocol
    assert {(one["perturbation"], one["count"]) for one in stored["sources"]} == {
        ("none", 48), ("obvious", 3), ("subtle", 9)
    }  # fmt: skip
    assert (stored["ratings_per_item"], stored["raters"]) == (2, 6)
    assert (
        "The draft now has 60 items (20% with a planted error), 6 raters, 120 ratings. Before: 40 items"
        in read_words(page)
    )


def test_planner_divides_items_among_casts_in_their_shares() -> None:
    assert study_sizes._divide(10, {"a": 1, "b": 2}) == {"a": 3, "b": 7}
    assert study_sizes._divide(7, {"a": 1, "b": 1, "c": 1}) == {"a": 3, "b": 2, "c": 2}


def test_planner_counts_imported_items_as_part_of_the_plan(ada: User) -> None:
    study = draft_study(ada)
    document = study_sizes.resize_document(study, ItemClasses(3, 0, 2), 2, 3, "offline")
    assert [(one["perturbation"], one["count"]) for one in document["sources"]] == [("none", 3), ("subtle", 2)]
    for number in range(4):
        ImportedItem.objects.create(
            study=study, key=str(number), record={}, payload={}, payload_sha256=str(number), label="file",
            perturbation="none", reference="unperturbed",
        )  # fmt: skip
    with pytest.raises(StudyError, match="4 items without a planted error imported into the draft; the plan has 3"):
        study_sizes.resize_document(study, ItemClasses(3, 0, 2), 2, 3, "offline")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"per_item": 5}, "Is 5; at most the number of raters, 4"),
        ({"items": "many"}, "Enter a whole number"),
        ({"difference": 90, "plausible": 60}, "Is larger than the share it is subtracted from, 60%"),
        ({"raters": 300}, "less than or equal to 200"),
    ],
)
def test_planner_rejects_impossible_numbers_beside_their_field(
    staff: Client, ada: User, query: dict[str, Any], problem: str
) -> None:
    study = draft_study(ada)
    assert problem in read_words(staff.get(get_planner(study), query))
    assert staff.post(get_planner(study), query).status_code == 422
    assert Study.objects.get().protocol == study.protocol


def test_planner_of_records_has_no_planted_errors(staff: Client, ada: User) -> None:
    page = staff.get(get_planner(draft_study(ada, **RECORDS)))
    assert [line.name for line in page.context["lines"]] == ["Judged sufficient", "Agreement, mean kappa"]
    assert "planted" not in page.context["form"].fields


def test_planner_of_a_crossed_study_changes_raters_and_ratings_together(staff: Client, ada: User) -> None:
    study = draft_study(ada, design="crossed", raters=3)
    staff.post(get_planner(study), {"raters": 5})
    stored = Study.objects.get().protocol
    assert (stored["ratings_per_item"], stored["raters"]) == (5, 5)


def test_planner_is_for_drafts_only(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    Study.objects.update(created_by=ada)
    assert "Only a draft can be planned" in read_words(staff.get(get_planner(study), follow=True))


def test_design_with_one_rating_per_item_states_that_agreement_cannot_be_measured(staff: Client, ada: User) -> None:
    run_factory.create_pool()
    sources = [{"cast": "offline", "perturbation": "none", "count": 4}]
    study = draft_study(ada, ratings_per_item=1, raters=2, sources=sources)
    limit = "This design cannot measure agreement between raters: every item has one rating."
    for address in (
        reverse("ratings:study", args=[study.slug]),
        reverse("ratings:build", args=[study.slug, "raters"]),
    ):
        assert limit in read_words(staff.get(address))
    assert "agreement cannot be measured" in read_words(staff.get(reverse("ratings:matrix", args=[study.slug])))
    Study.objects.update(protocol={**study.protocol, "ratings_per_item": 2})
    assert limit not in read_words(staff.get(reverse("ratings:study", args=[study.slug])))


def test_builder_of_records_offers_only_options_that_exist(staff: Client, ada: User) -> None:
    study = draft_study(ada, **RECORDS)
    pages = {
        step: read_words(staff.get(reverse("ratings:build", args=[study.slug, step])))
        for step in ("items", "raters", "screen")
    }
    assert "Only some actions" not in pages["items"] and "planted errors" in pages["items"]
    assert "in two sessions" not in pages["raters"] and "Each item is rated by a fixed number" in pages["raters"]
    assert "Aligned with balance" not in pages["screen"] and "Rater by rater" in pages["screen"]
    sent = {"marks": ["off"], "by": "rater", "do": "save"}
    assert staff.post(reverse("ratings:build", args=[study.slug, "screen"]), sent).status_code == 302


def test_study_that_becomes_one_of_records_loses_layouts_that_records_do_not_have(staff: Client, ada: User) -> None:
    study = draft_study(ada, display={"layouts": ["plain", "balance"], "context": [True]})
    Study.objects.update(kind="evidence_sufficiency", protocol={**study.protocol, **RECORDS})
    staff.post(reverse("ratings:build", args=[study.slug, "screen"]), {"marks": ["off"], "by": "rater", "do": "save"})
    assert Study.objects.get().protocol["display"] == {
        "layouts": ["aligned"], "context": [False], "marks": ["off"], "by": "rater", "calculator": False
    }  # fmt: skip
