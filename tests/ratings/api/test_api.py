"""The read API: same rows and numbers as pages and files, stable pagination, few queries, tokens and errors."""

import csv
import io
import json
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ratings.api import tokens
from ratings.exchange import exports
from ratings.exchange.imports import rating_imports
from ratings.models import TRANSITION, ApiToken, Item, ItemSource, Membership, Study
from ratings.results.analyses import store
from ratings.results.analyses.filters import Filters
from simulation.models import Episode, Job
from tests.support import run_factory, study_factory, study_log_texts
from tests.support.api_client import ApiProgram, create_api_program, get_last_token
from tests.support.embedded_worker import run_until_idle
from wetbench_site.observability.redaction import Redactor

DUMMY = "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"


@pytest.fixture
def study(db: None) -> Study:
    """A study with twenty ratings of ten items."""
    run_factory.create_pool()
    study = study_factory.create_open_study()
    for rater in study_factory.fill_all_rater_places(study):
        study_factory.rate_everything(rater)
    return study


@pytest.fixture
def ann(study: Study) -> User:
    """An analyst of the study."""
    return analyst("ann", study)


@pytest.fixture
def bea(db: None) -> User:
    """An analyst of an empty study."""
    study = Study.objects.create(
        slug="empty", name="E", kind=TRANSITION, question="?", protocol={}, seed=1, ratings_per_item=1
    )
    return analyst("bea", study)


def analyst(name: str, study: Study) -> User:
    user = User.objects.create_user(name)
    Membership.objects.create(study=study, user=user, role="analyst")
    return user


def imported(study: Study, by: User) -> None:
    """Import two ratings of one rater, of the first and the last item."""
    codes = sorted(str(code) for code in study.items.values_list("code", flat=True))
    lines = ["item,rater,verdict,confidence", f"{codes[0]},elsewhere,1,4", f"{codes[-1]},elsewhere,0,2"]
    rating_imports.import_file(study, io.BytesIO("\n".join(lines).encode()), by)


def file_rows(study: Study, blinded: bool) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(exports.export_csv_lines(study, blinded)), newline="")))


def as_in_the_file(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(int(value))
        case float():
            return f"{value:.3f}"
        case list():
            return json.dumps(value)
        case _:
            return str(value)


def same(rows: list[dict[str, Any]], file: list[dict[str, str]]) -> bool:
    moments = ("opened_at", "submitted_at")
    told = [
        {name: as_in_the_file(value).replace("Z", "+00:00" if name in moments else "Z") for name, value in row.items()}
        for row in rows
    ]
    return told == file


# Agreement with pages and files


@pytest.mark.both_databases
def test_api_ratings_equal_the_csv_file_before_and_after_unblinding(study: Study, ann: User) -> None:
    imported(study, ann)
    reader = create_api_program(ann)
    blinded = list(reader.iter_pages(f"/studies/{study.slug}/ratings?limit=7"))
    assert [page["blinded"] for page in blinded] == [True] * 4
    assert same(reader.list_rows(f"/studies/{study.slug}/ratings?limit=7"), file_rows(study, True))
    assert [row["item"] for row in blinded[-1]["data"]] == [None]  # the last imported one
    study_factory.unblind_study(study, None)
    for limit in (1, 7, 500):
        assert same(reader.list_rows(f"/studies/{study.slug}/ratings?limit={limit}"), file_rows(study, False))
    narrow = create_api_program(ann, "ratings:read")
    assert same(narrow.list_rows(f"/studies/{study.slug}/ratings?limit=7"), file_rows(study, True))


def test_api_statistics_equal_the_document_of_the_results_page(study: Study, ann: User, client: Client) -> None:
    reader, address = create_api_program(ann), f"/studies/{study.slug}/statistics"
    sealed = reader.send_request(address)
    assert sealed.status_code == 409 and "available after unblinding" in sealed.json()["detail"]
    study_factory.unblind_study(study, None)
    pending = reader.send_request(address)
    assert pending.status_code == 202 and pending["Retry-After"] == "5" and pending.json()["job"].startswith("/jobs/")
    store.compute_analysis(study, Filters(), resamples=store.RESAMPLES)
    client.force_login(ann)
    page = client.get(f"/studies/{study.slug}/results.json")
    answer = reader.send_request(address)
    assert (answer.status_code, answer.content, answer["ETag"]) == (200, page.content, page["ETag"])


def test_api_contrasts_equal_the_table_of_the_comparison_page(study: Study, ann: User) -> None:
    other = study_factory.create_open_study(2, slug="other", name="Other", ratings_per_item=1)
    Membership.objects.create(study=other, user=ann, role="analyst")
    reader, address = create_api_program(ann), f"/studies/{study.slug}/contrasts/other"
    study_factory.unblind_study(study, None)
    sealed = reader.send_request(address)
    assert sealed.status_code == 409 and sealed.json()["detail"].startswith("Other is open")
    assert reader.send_request(f"/studies/{study.slug}/contrasts/{study.slug}").status_code == 409
    assert reader.send_request(f"/studies/{study.slug}/contrasts/unknown").status_code == 404
    study_factory.unblind_study(other, None)
    pending = reader.send_request(address)
    assert pending.status_code == 202 and pending.json()["job"].startswith("/jobs/")
    run_until_idle()
    answer = reader.send_request(address).json()
    assert (answer["first"], answer["second"]) == (study.slug, "other")
    assert answer["table"] == Job.objects.get(kind="comparison").result["table"]
    Membership.objects.filter(study=other).delete()
    assert reader.send_request(address).status_code == 404


@pytest.mark.both_databases
def test_api_items_show_only_codes_and_counts_before_unblinding(study: Study, ann: User) -> None:
    imported(study, ann)
    reader, address = create_api_program(ann), f"/studies/{study.slug}/items"
    before = reader.list_rows(f"{address}?limit=3")
    assert [row["item"] for row in before] == sorted(str(code) for code in study.items.values_list("code", flat=True))
    assert {(row["ratings"], row["payload"], row["context"], row["source"]) for row in before} == {
        (2, None, None, None)
    }
    study_factory.unblind_study(study, None)
    after = reader.list_rows(f"{address}?limit=3")
    assert [row["ratings"] for row in after] == [3, *[2] * 8, 3]
    for row in after:
        source = ItemSource.objects.select_related("item").get(item__code=row["item"])
        assert (row["source"]["source"], row["source"]["perturbation"]) == (source.label, source.perturbation)
        assert row["source"]["truth"] == (source.perturbation == "none") and row["payload"] == source.item.payload
        assert reader.send_request(f"{address}/{row['item']}").json() == row
    blinded = create_api_program(ann, "items:blinded").list_rows(address)
    assert [row["payload"] for row in blinded] == [row["payload"] for row in after]
    assert {row["source"] for row in blinded} == {None}
    assert {row["ratings"] for row in blinded} == {2}  # who imported ratings knows what they are of


def test_api_study_reports_its_progress_like_its_page(study: Study, ann: User) -> None:
    told = create_api_program(ann).send_request(f"/studies/{study.slug}").json()
    assert told["progress"] | {"said": ""} == {
        "items": 10, "ratings": 20, "wanted": 20, "complete": True, "said": "",
    }  # fmt: skip
    assert (told["status"], told["unblinded"], told["protocol"]) == ("open", False, study.protocol)


def test_api_transcript_has_actions_without_ledger_prompts_or_reasons(study: Study, ada: User) -> None:
    episode = Episode.objects.filter(transitions__isnull=False).order_by("pk")[0]
    reader = create_api_program(ada)
    told = reader.send_request(f"/episodes/{episode.code}/transcript").json()
    assert [step["number"] for step in told["data"]] == [2, 4, 6, 8, 10]
    assert told["data"][0]["inputs"][0]["name"] == "Sample" and told["data"][0]["outputs"][1]["name"] == "Tube"
    assert "LEAK" not in json.dumps(told)
    assert reader.list_rows(f"/episodes/{episode.code}/transcript?limit=2") == told["data"]
    listed = reader.list_rows("/episodes?limit=1")
    assert [row["code"] for row in listed] == [str(e.code) for e in Episode.objects.order_by("-pk")]
    assert reader.send_request(f"/episodes/{episode.code}").json() == listed[-1]
    assert reader.list_rows(f"/episodes?experiment={episode.experiment.slug}") == [listed[-1]]


# Pagination


@pytest.mark.both_databases
def test_api_pages_are_stable_while_ratings_are_imported(study: Study, ann: User) -> None:
    reader, address = create_api_program(ann), f"/studies/{study.slug}/ratings?limit=10"
    whole = [(row["item"], row["rater"]) for row in reader.list_rows(address)]
    pages = reader.iter_pages(address)
    first = next(pages)
    imported(study, ann)
    rest = [(row["item"], row["rater"]) for page in pages for row in page["data"]]
    assert [(row["item"], row["rater"]) for row in first["data"]] + rest[:10] == whole
    assert [item for item, _ in rest[10:]] == [None, None]


def test_api_cursor_belongs_to_one_list_and_cannot_be_forged(study: Study, ann: User) -> None:
    reader = create_api_program(ann)
    following = reader.send_request(f"/studies/{study.slug}/ratings?limit=1").json()["next"]
    cursor = following.rpartition("cursor=")[2]
    for wrong in (f"/studies/{study.slug}/items?cursor={cursor}", f"{following}x", "/studies?cursor=x"):
        answer = reader.send_request(wrong)
        assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    study_factory.unblind_study(study, None)
    assert reader.send_request(following).status_code == 400  # it was of the blinded list


def test_api_cursor_contains_no_database_key_and_no_imported_item(study: Study, ann: User) -> None:
    imported(study, ann)
    pages = list(create_api_program(ann).iter_pages(f"/studies/{study.slug}/ratings?limit=1"))
    cursors = [unquote(page["next"].rpartition("cursor=")[2]) for page in pages if page["next"]]
    told = [signing.loads(one, salt=f"ratings.api/ratings/{study.code}/blinded") for one in cursors]
    assert len(told) == 21 and [one[0] for one in told[:20]] == [page["data"][0]["item"] for page in pages[:20]]
    assert told[20][0] == ""


def test_api_query_count_does_not_grow_with_page_size(study: Study, ada: User) -> None:
    Study.objects.update(created_by=ada)
    for number in range(25):
        Study.objects.create(
            slug=f"s{number}", name="S", kind=study.kind, question="?", protocol={}, seed=1, ratings_per_item=1,
            created_by=ada,
        )  # fmt: skip
        run_factory.create_transition(run_factory.create_episode("maize", replicate=number + 1), 1)
    for number in range(15):
        Item.objects.create(study=study, payload={}, payload_sha256=f"{number:064}", created_at=study.created_at)
    study_factory.unblind_study(study, None)
    reader = create_api_program(ada)
    for address in ("/studies", "/episodes", f"/studies/{study.slug}/items", f"/studies/{study.slug}/ratings"):
        reader.send_request(address)  # marks the token as used, and logs the copy
        counts = {}
        for limit in (10, 20):
            with CaptureQueriesContext(connection) as queries:
                assert len(reader.send_request(f"{address}?limit={limit}").json()["data"]) == limit
            counts[limit] = len(queries)
        assert counts[10] == counts[20] <= 9, address


@pytest.mark.both_databases
def test_api_last_page_reads_as_few_rows_as_the_first(study: Study, ann: User) -> None:
    """Both query the ratings of as many items as a page can need, and none before its start."""
    reader, address = create_api_program(ann), f"/studies/{study.slug}/ratings?limit=2"
    first = reader.send_request(address).json()
    pages = list(reader.iter_pages(address))
    with CaptureQueriesContext(connection) as queries:
        assert reader.send_request(pages[-2]["next"]).json()["data"] == pages[-1]["data"]
    assert not any("OFFSET" in query["sql"] for query in queries)
    assert first["data"] == pages[0]["data"] and len(pages) == 10


# Access


def test_api_rejects_requests_without_a_token_even_with_a_session(study: Study, ann: User, client: Client) -> None:
    client.force_login(ann)
    for headers in ({}, {"Authorization": "Bearer wb_forged"}, {"Authorization": "Basic YTpi"}):
        answer = client.get(f"/api/v1/studies/{study.slug}", headers=headers)
        assert (answer.status_code, answer["Content-Type"]) == (401, "application/problem+json")
        assert answer["WWW-Authenticate"].startswith('Bearer realm="WetBench"')
        assert answer.json()["status"] == 401 and answer["Cache-Control"] == "no-store"


def test_api_token_reads_what_its_user_can_currently_read(study: Study, ann: User) -> None:
    reader, address = create_api_program(ann), f"/studies/{study.slug}"
    foreign = study_factory.create_open_study(name="Other", slug="other")
    assert [row["slug"] for row in reader.list_rows("/studies")] == [study.slug]
    assert reader.send_request(f"/studies/{foreign.slug}").content == reader.send_request("/studies/nowhere").content
    assert reader.send_request("/studies/nowhere").status_code == 404
    Membership.objects.create(study=foreign, user=ann, role="analyst")
    assert reader.send_request(f"/studies/{foreign.slug}").status_code == 200
    Membership.objects.filter(study=study).delete()
    assert reader.send_request(address).status_code == 404
    Membership.objects.all().delete()
    assert reader.send_request("/studies").status_code == 401  # no role is left


def test_api_token_stops_working_when_its_user_is_deactivated(bea: User) -> None:
    reader = create_api_program(bea)
    assert reader.send_request("/studies").status_code == 200
    User.objects.filter(pk=bea.pk).update(is_active=False)
    assert reader.send_request("/studies").status_code == 401


def test_api_rejects_expired_and_revoked_tokens(bea: User) -> None:
    reader = create_api_program(bea)
    made = get_last_token()
    made.created_at, made.expires_at = made.created_at - timedelta(days=91), made.expires_at - timedelta(days=91)
    made.save()
    assert reader.send_request("/studies").status_code == 401
    again = create_api_program(bea)
    assert tokens.revoke_token(get_last_token()) and not tokens.revoke_token(get_last_token())
    assert again.send_request("/studies").status_code == 401


@pytest.mark.parametrize("who", ["staff", "study admin"])
def test_api_token_page_requires_two_factor_authentication_first(
    bea: User, client: Client, settings: Any, who: str
) -> None:
    if who == "staff":
        User.objects.filter(pk=bea.pk).update(is_staff=True)
    settings.SECOND_STEP_REQUIRED = True
    client.force_login(bea)
    asked = {"code": DUMMY, "name": "notebook", "scopes": ["studies:read"], "days": 90}
    if who == "study admin":
        assert client.get("/account/tokens/").status_code == 200  # an analyst needs none
        Membership.objects.filter(user=bea).update(role="admin")
    answer = client.post("/account/tokens/", asked)
    assert (answer.status_code, answer["Location"]) == (302, "/account/second-step/")
    assert not ApiToken.objects.exists()


def test_api_scope_gives_access_to_its_own_endpoints_only(study: Study, ada: User) -> None:
    other = study_factory.create_open_study(2, slug="other", name="Other", ratings_per_item=1)
    Study.objects.update(created_by=ada)
    study_factory.unblind_study(study, None)
    study_factory.unblind_study(other, None)
    code = Episode.objects.order_by("pk")[0].code
    opens = {
        "studies:read": ["/studies", f"/studies/{study.slug}"],
        "items:blinded": [f"/studies/{study.slug}/items"],
        "ratings:read": [f"/studies/{study.slug}/ratings"],
        "statistics:read": [f"/studies/{study.slug}/statistics", f"/studies/{study.slug}/contrasts/other"],
        "episodes:read": ["/episodes", f"/episodes/{code}"],
        "transcripts:read": [f"/episodes/{code}/transcript"],
    }
    for scope in opens:
        reader = create_api_program(ada, scope)
        for own, address in ((own, address) for own, addresses in opens.items() for address in addresses):
            answer = reader.send_request(address)
            assert answer.status_code in ((200, 202) if own == scope else (403,)), (scope, address)
            assert own == scope or own in answer.json()["detail"]


def test_api_episodes_require_current_staff_status(study: Study, ada: User) -> None:
    Membership.objects.create(study=study, user=ada, role="analyst")
    reader = create_api_program(ada)
    assert reader.send_request("/episodes").status_code == 200
    User.objects.filter(pk=ada.pk).update(is_staff=False)
    code = Episode.objects.order_by("pk")[0].code
    for address in ("/episodes", f"/episodes/{code}", f"/episodes/{code}/transcript"):
        assert reader.send_request(address).status_code == 404
    assert reader.send_request(f"/studies/{study.slug}").status_code == 200


def test_api_token_limited_to_one_study_reads_no_other_even_after_that_study_is_deleted(
    study: Study, ann: User
) -> None:
    other = study_factory.create_open_study(name="Other", slug="other")
    Membership.objects.create(study=other, user=ann, role="analyst")
    reader = create_api_program(ann, studies=[study])
    assert [row["slug"] for row in reader.list_rows("/studies")] == [study.slug]
    assert reader.send_request("/studies/other").status_code == 404
    get_last_token().studies.clear()
    assert reader.list_rows("/studies") == []


# Responses


def test_api_errors_are_problem_documents(bea: User, client: Client) -> None:
    reader = create_api_program(bea)
    for status, path, method in (
        (404, "/nowhere", "GET"), (404, f"/studies/a/items/{DUMMY}", "GET"), (405, "/studies", "POST"),
        (405, "/studies", "DELETE"), (422, "/studies?limit=0", "GET"), (422, "/studies?limits=3", "GET"),
    ):  # fmt: skip
        answer = reader.send_request(path, method)
        told = answer.json()
        assert (answer.status_code, answer["Content-Type"], told["status"]) == (
            status,
            "application/problem+json",
            status,
        )
        assert set(told) >= {"type", "title", "detail"}
    assert reader.send_request("/studies", "POST")["Allow"] == "GET, HEAD"
    assert told["errors"] == [{"parameter": "limits", "problem": "unknown parameter"}]


@pytest.mark.both_databases
def test_api_rejects_a_parameter_with_nul(ada: User) -> None:
    reader = create_api_program(ada)
    for name in ("experiment", "cast", "status"):
        answer = reader.send_request(f"/episodes?{name}=a%00b")
        assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, name)


def test_api_head_returns_the_headers_of_get_without_a_body(bea: User) -> None:
    reader = create_api_program(bea)
    head, got = reader.send_request("/studies", "HEAD"), reader.send_request("/studies")
    assert (head.status_code, head.content, head["Content-Length"]) == (200, b"", got["Content-Length"])


def test_api_rate_limit_rejects_excess_requests(bea: User, settings: Any) -> None:
    settings.API_PER_MINUTE = 3
    reader, other = create_api_program(bea), create_api_program(bea)
    assert [reader.send_request("/studies").status_code for _ in range(4)] == [200, 200, 200, 429]
    held = reader.send_request("/studies")
    assert held.json()["status"] == 429 and 1 <= int(held["Retry-After"]) <= 20
    assert other.send_request("/studies").status_code == 200


def test_api_token_use_is_recorded_once_a_minute(bea: User) -> None:
    reader = create_api_program(bea)
    assert get_last_token().last_used_at is None
    reader.send_request("/studies")
    used = get_last_token().last_used_at
    with CaptureQueriesContext(connection) as queries:
        reader.send_request("/studies")
    assert used and get_last_token().last_used_at == used
    assert not [query for query in queries if query["sql"].startswith("UPDATE")]


def test_api_copy_of_ratings_is_logged_once_an_hour(study: Study, ann: User) -> None:
    reader, address = create_api_program(ann), f"/studies/{study.slug}/ratings?limit=5"
    reader.send_request(address, "HEAD")
    assert not study.events.filter(kind="exported").exists()
    reader.list_rows(address)
    reader.list_rows(address)
    assert [event.by for event in study.events.filter(kind="exported")] == [ann]
    assert study_log_texts.list_event_texts(study, "exported") == ["blinded, by API token notebook"]


def test_api_token_does_not_appear_in_logs(bea: User, caplog: pytest.LogCaptureFixture) -> None:
    reader = create_api_program(bea)
    text = reader.headers["Authorization"].removeprefix("Bearer ")
    with caplog.at_level("DEBUG", "wetbench"):
        reader.send_request("/studies")
        ApiProgram(text[:-1]).send_request("/studies")
    assert text[:-1] not in caplog.text
    assert text not in Redactor([])(f"GET /api/v1/studies?token={text}")
