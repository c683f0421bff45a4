"""Every address, as every role, with every method: the site grants what the access table grants, and nothing else."""

from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection, transaction
from django.http import Http404, HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse

from ratings.models import Membership
from ratings.rating import next_item
from ratings.studies import access
from tests.support import study_factory
from tests.support.access_world import PEOPLE, World, list_urls
from wetbench_site import access_table
from wetbench_site.access_table import ACCESS_TABLE, ROLES

pytestmark = [pytest.mark.django_db]
METHODS = ("GET", "HEAD", "POST")
UNUSED_METHODS = ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")  # granted in no row: sent by one account of each kind
# The roles of each person on the pages of `study` (STUDY_ROLES), and on pages that belong to no study (OTHER_ROLES).
STUDY_ROLES = {
    "stranger": ("stranger",),
    "nobody": ("account",),
    "rater": ("account", "rater"),
    "other rater": ("account",),
    "analyst": ("account", "analyst"),
    "admin": ("account", "staff", "admin"),
    "other admin": ("account", "staff"),
    "superuser": ("superuser",),
}
PEOPLE_FOR_UNUSED_METHODS = ("stranger", "rater", "admin", "superuser")
OTHER_ROLES = {**STUDY_ROLES, "other rater": ("account", "rater"), "other admin": ("account", "staff", "admin")}
# Granted by role but 404: the study has not reached that state, or the empty form names no practice item.
GRANTED_BUT_404 = {
    "ratings:practice",
    "ratings:result",
    "ratings:review",
    "ratings:review_item",
    "ratings:compare",
    "ratings:compare_csv",
    "ratings:items",
    "ratings:item",
    "ratings:certificate",
    "ratings:figure",
    "ratings:results_json",
    "ratings:table_csv",
    "ratings:second_step_qr",
    "ratings:revoke_token",  # somebody else's
}


def get_granted_methods(name: str, person: str) -> frozenset[str]:
    of_study = list_urls()[name].pattern.converters
    roles = (STUDY_ROLES if of_study else OTHER_ROLES)[person]
    return frozenset[str]().union(*(ACCESS_TABLE[name][role] for role in roles))


def iter_requests(all_requests: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield all requests to check, or with `every` false only enough to reach each view as every person who may reach it.

    A request that the table rejects never reaches a view. The table's own guard is tested below with every address and person;
    here one address of each row, and one person for each method that no row grants, are enough. HEAD is GET without a body.
    """
    sent_kinds: set[object] = set()
    for index, name in enumerate(sorted(list_urls())):
        for person in PEOPLE:
            for method in METHODS:
                reaches_view = person == "stranger" or method in get_possible_methods(name, person)
                kind = (
                    (str(ACCESS_TABLE[name]), person, method)
                    if method == "HEAD" or not reaches_view
                    else (name, person, method)
                )
                if all_requests or kind not in sent_kinds:
                    yield name, person, method
                sent_kinds.add(kind)
        for n, method in enumerate(UNUSED_METHODS):
            yield from (
                (name, person, method)
                for person in (
                    PEOPLE_FOR_UNUSED_METHODS
                    if all_requests
                    else [PEOPLE_FOR_UNUSED_METHODS[(index + n) % len(PEOPLE_FOR_UNUSED_METHODS)]]
                )
            )


def send_and_roll_back(world: World, person: str, method: str, path: str, **headers: str) -> Any:
    """Return the response, and roll back whatever the request changed."""
    with transaction.atomic():
        response = world.send_request(person, method, path, **headers)
        transaction.set_rollback(True)
    return response


def test_access_table_has_a_row_for_every_address_and_no_other_row() -> None:
    assert sorted(set(list_urls()) - set(ACCESS_TABLE)) == [], "addresses without a row: they answer 404 to everybody"
    assert sorted(set(ACCESS_TABLE) - set(list_urls())) == [], "rows without an address"
    assert all(set(row) == set(ROLES) for row in ACCESS_TABLE.values())


def test_access_table_is_applied_to_everybody_who_reaches_a_view(world: World) -> None:
    assert find_violations(world, iter_requests()) == []


@pytest.mark.thorough
def test_access_table_is_applied_to_every_address_person_and_method(world: World) -> None:
    assert find_violations(world, iter_requests(all_requests=True)) == []


def find_violations(world: World, asked_for: Iterator[tuple[str, str, str]]) -> list[str]:
    results = (
        (f"{method} {name} as {person}", _describe_problem(world, name, person, method))
        for name, person, method in asked_for
    )
    return [f"{request}: {problem}" for request, problem in results if problem]


def test_access_guard_rejects_exactly_the_requests_without_a_grant(world: World, rf: RequestFactory) -> None:
    guard = access_table.AccessTable(lambda request: HttpResponse())
    for name, (person, user) in product(list_urls(), list_accounts().items()):
        for method in (*METHODS, *UNUSED_METHODS):
            request = rf.generic(method, "/")
            request.resolver_match, request.user = SimpleNamespace(view_name=name), user  # type: ignore[assignment]
            try:
                response = guard.process_view(request, None, (), {})
            except Http404:
                response = HttpResponse(status=404)
            methods = get_possible_methods(name, person)
            if method in methods or (person == "stranger" and not methods):
                assert response is None, (name, person, method)  # the page, or a redirect to sign-in
            else:
                assert response and response.status_code == (405 if methods else 404), (name, person, method)


def list_accounts() -> dict[str, User | AnonymousUser]:
    user_names = {"nobody": "nobody", "analyst": "ann", "admin": "boss", "superuser": "root"}
    return {
        "stranger": AnonymousUser(),
        **{person: User.objects.get(username=name) for person, name in user_names.items()},
    }


def _describe_problem(world: World, name: str, person: str, method: str) -> str:
    """Return "" if the response agrees with the table."""
    methods = get_granted_methods(name, person)
    response = send_and_roll_back(world, person, method, world.build_path(name))
    status, is_sign_in_redirect = response.status_code, response.headers.get("Location", "").startswith("/login/")
    if status >= 500 and name != "readyz":  # 503 where no worker runs
        return f"{status}"
    if name.startswith("api:") and name != "api:openapi" and method in methods:
        return "" if status == 401 else f"{status}, without a token"
    if method in methods:
        is_refused = status in (401, 403, 404, 405) or (
            is_sign_in_redirect and name not in ("home", "logout", "ratings:sign_in_code")
        )
        return f"{status}, though granted" if is_refused and not (status == 404 and name in GRANTED_BUT_404) else ""
    if person == "stranger" and not methods:
        return "" if status == 302 and is_sign_in_redirect else f"{status}, not sent to sign in"
    if not methods and method in get_possible_methods(name, person):
        return "" if status == 404 else f"{status}, not hidden"
    return "" if status in (404, 405) else f"{status}, though not granted"


def get_possible_methods(name: str, person: str) -> frozenset[str]:
    """Return the methods that such an account could have in some study. Where it has none, the address must not appear to exist."""
    roles_by_kind = {"stranger": ROLES[:1], "superuser": ROLES[6:], "admin": ROLES[1:6], "other admin": ROLES[1:6]}
    return frozenset[str]().union(*(ACCESS_TABLE[name][role] for role in roles_by_kind.get(person, ROLES[1:5])))


def test_fragments_requested_without_a_session_answer_401(world: World) -> None:
    for name in list_urls():
        if not get_granted_methods(name, "stranger"):
            response = send_and_roll_back(world, "stranger", "GET", world.build_path(name), **{"HX-Request": "true"})
            assert response.status_code == 401, name


def test_address_without_a_row_in_the_access_table_answers_404(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(access_table.ACCESS_TABLE, "ratings:studies")
    for person in PEOPLE:
        assert send_and_roll_back(world, person, "GET", "/studies/").status_code == 404


def test_objects_of_others_look_like_objects_that_do_not_exist(world: World) -> None:
    missing = "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"
    pairs = [
        ("other rater", world.build_path("ratings:rate"), f"/rate/{missing}/"),
        ("other rater", world.build_path("ratings:next"), f"/rate/study/{missing}/"),
        ("other admin", "/studies/walked/", "/studies/nowhere/"),
        ("analyst", "/studies/other/", "/studies/nowhere/"),
        ("rater", world.build_path("simulation:episode"), f"/episodes/{missing}/"),
        ("rater", "/admin/", "/administrator/"),
        ("other admin", world.build_path("ratings:job"), f"/jobs/{missing}/"),
        ("other admin", world.build_path("ratings:job_file"), f"/jobs/{missing}/files/1/"),
        ("rater", world.build_path("ratings:benchmark"), f"/benchmarks/{missing}/"),
        ("other admin", "/studies/walked/export/", "/studies/nowhere/export/"),
        ("other admin", "/studies/walked/machines/", "/studies/nowhere/machines/"),
        ("admin", "/studies/walked/results.json", "/studies/nowhere/results.json"),  # sealed
        ("admin", "/studies/walked/tables/rates.csv", "/studies/walked/tables/none.csv"),
        ("admin", "/studies/walked/figures/rates.svg", "/studies/walked/figures/none.svg"),
    ]
    for person, foreign_path, missing_path in pairs:
        foreign_response, missing_response = (
            send_and_roll_back(world, person, "GET", foreign_path),
            send_and_roll_back(world, person, "GET", missing_path),
        )
        assert (
            (foreign_response.status_code, foreign_response.content)
            == (missing_response.status_code, missing_response.content)
            == (404, missing_response.content)
        )
        assert dict(foreign_response.headers) == dict(missing_response.headers) or set(foreign_response.headers) ^ set(
            missing_response.headers
        ) <= {"Vary"}


ADMIN_SITE = ("/admin/", "/admin/login/", "/admin/ratings/study/", "/admin/auth/user/", "/admin/nowhere/")


def test_admin_site_is_for_superusers_only(world: World) -> None:
    for path in ADMIN_SITE:
        for person in PEOPLE[:-1]:
            for method in (*METHODS, *UNUSED_METHODS):
                assert send_and_roll_back(world, person, method, path).status_code == 404, (person, method, path)
    assert [send_and_roll_back(world, "superuser", "GET", path).status_code for path in ADMIN_SITE] == [
        200,
        302,
        200,
        200,
        404,
    ]


LOGGED = {"ratings:ratings_csv", "ratings:admin_link", "ratings:unblind_study"}


# A rater's GET of an item records that it was opened and until when it is reserved.
# Showing an item or an invitation for the first time is recorded.
OPENED = {
    "ratings:rate": "ratings_assignment",
    "ratings:next": "ratings_assignment",
    "ratings:rater_link": "ratings_invitation",
}


@pytest.mark.parametrize("person", ["superuser", "analyst", "rater", "stranger"])
def test_get_requests_write_nothing_except_sessions_prompt_sets_and_log_entries_of_exports(
    world: World, person: str
) -> None:
    """Fetch every page: nothing is written except sessions, prompt sets (stored when first used) and log entries of exports."""
    unexpected = []
    for name in sorted(list_urls()):
        for method in {"GET", "HEAD"} & get_granted_methods(name, person) if name not in LOGGED else ():
            with WriteRecorder() as written, transaction.atomic():
                world.send_request(person, method, world.build_path(name))
                transaction.set_rollback(True)
            records_opening = person == "rater" or name == "ratings:rater_link"
            allowed_table = OPENED.get(name, "nothing") if records_opening else "nothing"
            unexpected += [f"{method} {name}: {sql[:120]}" for sql in written.statements if allowed_table not in sql]
    assert unexpected == []


class WriteRecorder:
    """Record the statements that write rows inside the block (Django's execute_wrapper)."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __enter__(self) -> "WriteRecorder":
        self._hook = connection.execute_wrapper(self)
        self._hook.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._hook.__exit__(*error)

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        writes = sql.startswith(("INSERT", "UPDATE", "DELETE"))
        if writes and not any(table in sql for table in ("ratings_browsersession", "simulation_promptset")):
            self.statements.append(sql)
        return execute(sql, params, many, context)


def test_write_recorder_detects_a_write(world: World) -> None:
    with WriteRecorder() as written:
        Membership.objects.filter(study=world.study).update(role="admin")
    assert len(written.statements) == 1


# The functions behind the pages


def test_a_rater_reaches_own_assignments_and_no_others(world: World) -> None:
    own_assignment = next_item.find_next_assignment(world.rater)
    other = study_factory.fill_rater_place(world.study, "R02")
    foreign_assignment = next_item.find_next_assignment(other)
    assert (
        own_assignment
        and foreign_assignment
        and access.get_assignment_or_404(world.rater.user, own_assignment.code) == own_assignment
    )
    for user, code in (
        (world.rater.user, foreign_assignment.code),
        (AnonymousUser(), own_assignment.code),
        (other.user, own_assignment.code),
    ):
        with pytest.raises(Http404):
            access.get_assignment_or_404(user, code)


def test_item_is_shown_without_reading_its_source(world: World, django_assert_max_num_queries: Any) -> None:
    assignment, user = next_item.find_next_assignment(world.rater), world.rater.user
    with django_assert_max_num_queries(2) as queries:
        payload = access.get_assignment_or_404(user, assignment.code).item.payload
    assert payload["kind"] == "transition"
    assert not any("itemsource" in query["sql"] for query in queries.captured_queries)


def test_role_in_a_study_follows_membership_and_creation(world: World) -> None:
    users = {name: User.objects.get(username=name) for name in ("boss", "other boss", "ann", "nobody", "root")}
    roles = {name: access.get_role(user, world.study) for name, user in users.items()}
    assert roles == {"boss": "admin", "other boss": "", "ann": "analyst", "nobody": "", "root": "superuser"}
    assert access.get_role(AnonymousUser(), world.study) == ""
    assert list(access.list_studies(users["ann"])) == [world.study]
    Membership.objects.create(study=world.study, user=users["other boss"], role="admin")
    assert access.get_role(users["other boss"], world.study) == "admin"


def test_creator_of_a_study_who_is_no_longer_staff_has_no_role_in_it(world: World) -> None:
    User.objects.filter(username="boss").update(is_staff=False)
    boss = User.objects.get(username="boss")
    assert access.get_role(boss, world.study) == "" and not access.list_studies(boss).exists()


def test_session_of_a_deactivated_account_ends_at_once(world: World) -> None:
    User.objects.filter(username="boss").update(is_active=False)
    response = send_and_roll_back(world, "admin", "GET", reverse("ratings:study", args=["walked"]))
    assert response.status_code == 302 and response.headers["Location"].startswith("/login/")


def test_sign_out_ends_the_session_of_a_copied_cookie(world: World) -> None:
    assert world.send_request("admin", "POST", "/logout/").status_code == 302
    assert world.send_request("admin", "GET", "/studies/").status_code == 302  # the same cookie as before


def test_sign_in_does_not_redirect_to_another_site(client: Client) -> None:
    User.objects.create_user("kim", password="seven grey pipettes")
    sent = {"username": "kim", "password": "seven grey pipettes", "next": "https://evil.example.org/"}
    assert client.post("/login/", sent).headers["Location"] == "/"


@pytest.mark.parametrize("own", ["{}", "0{}", "+{}", "%20{}"])
def test_admin_site_does_not_change_ones_own_password_without_the_old_one(client: Client, own: str) -> None:
    root = User.objects.create_superuser("rita", password="seven grey pipettes")
    other = User.objects.create_user("kim")
    client.force_login(root)
    form = {"password1": "eight blue beakers", "password2": "eight blue beakers", "usable_password": "true"}
    address = f"/admin/auth/user/{own.format(root.pk)}/password/"
    assert client.get(address).status_code == 403
    assert client.post(address, form).status_code == 403
    root.refresh_from_db()
    assert root.check_password("seven grey pipettes")
    assert client.post(f"/admin/auth/user/{other.pk}/password/", form).status_code == 302
