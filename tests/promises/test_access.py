"""Every address, as every role, with every method: what the access table grants, and nothing else."""

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
from ratings.rating import serving
from ratings.studies import access
from tests.support import access_world, study_factory
from tests.support.access_world import PEOPLE, World, names
from wetbench_site import access_table
from wetbench_site.access_table import ROLES, TABLE

pytestmark = [pytest.mark.django_db]
METHODS = ("GET", "HEAD", "POST")
NOBODYS = ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")  # granted in no row: asked by one of each kind of account
# What the grants of each person are, on the pages of `study` and on pages that belong to no study.
OWN = {
    "stranger": ("stranger",),
    "nobody": ("account",),
    "rater": ("account", "rater"),
    "other rater": ("account",),
    "analyst": ("account", "analyst"),
    "admin": ("account", "staff", "admin"),
    "other admin": ("account", "staff"),
    "superuser": ("superuser",),
}
ASKERS = ("stranger", "rater", "admin", "superuser")
ANYWHERE = {**OWN, "other rater": ("account", "rater"), "other admin": ("account", "staff", "admin")}
# Granted by role, and 404 all the same: the study is not that far, or the empty form names no practice item.
NOT_YET = {
    "ratings:practice",
    "ratings:result",
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


@pytest.fixture
def world() -> World:
    return access_world.build()


def granted(name: str, person: str) -> frozenset[str]:
    of_study = names()[name].pattern.converters
    roles = (OWN if of_study else ANYWHERE)[person]
    return frozenset[str]().union(*(TABLE[name][role] for role in roles))


def walk(every: bool = False) -> Iterator[tuple[str, str, str]]:
    """All that could be asked; or the least that still asks each view as everybody who gets as far as it.

    Whom the table alone turns away never meets a view: below, the table's own guard is asked about each of them, and here
    one address of each row, and one person of each method that no row grants. HEAD is GET without its body.
    """
    met: set[object] = set()
    for at, name in enumerate(sorted(names())):
        for person in PEOPLE:
            for method in METHODS:
                seen_by_a_view = person == "stranger" or method in possible(name, person)
                kind = (
                    (str(TABLE[name]), person, method)
                    if method == "HEAD" or not seen_by_a_view
                    else (name, person, method)
                )
                if every or kind not in met:
                    yield name, person, method
                met.add(kind)
        for n, method in enumerate(NOBODYS):
            yield from ((name, person, method) for person in (ASKERS if every else [ASKERS[(at + n) % len(ASKERS)]]))


def asked(world: World, person: str, method: str, path: str, **headers: str) -> Any:
    """The answer; whatever it did is undone."""
    with transaction.atomic():
        answer = world.ask(person, method, path, **headers)
        transaction.set_rollback(True)
    return answer


def test_every_address_has_a_row_and_every_row_an_address() -> None:
    assert sorted(set(names()) - set(TABLE)) == [], "addresses without a row: they answer 404 to everybody"
    assert sorted(set(TABLE) - set(names())) == [], "rows without an address"
    assert all(set(row) == set(ROLES) for row in TABLE.values())


def test_every_address_as_everybody_who_gets_as_far_as_its_page(world: World) -> None:
    assert wrong(world, walk()) == []


@pytest.mark.thorough
def test_every_address_as_everybody_with_every_method(world: World) -> None:
    assert wrong(world, walk(every=True)) == []


def wrong(world: World, asked_for: Iterator[tuple[str, str, str]]) -> list[str]:
    every = (
        (f"{method} {name} as {person}", _problem(world, name, person, method)) for name, person, method in asked_for
    )
    return [f"{what}: {problem}" for what, problem in every if problem]


def test_the_tables_own_guard_turns_away_whom_it_says(world: World, rf: RequestFactory) -> None:
    guard = access_table.AccessTable(lambda request: HttpResponse())
    for name, (person, user) in product(names(), people().items()):
        for method in (*METHODS, *NOBODYS):
            request = rf.generic(method, "/")
            request.resolver_match, request.user = SimpleNamespace(view_name=name), user  # type: ignore[assignment]
            try:
                answer = guard.process_view(request, None, (), {})
            except Http404:
                answer = HttpResponse(status=404)
            mine = possible(name, person)
            if method in mine or (person == "stranger" and not mine):
                assert answer is None, (name, person, method)  # the page, or the way to sign in
            else:
                assert answer and answer.status_code == (405 if mine else 404), (name, person, method)


def people() -> dict[str, User | AnonymousUser]:
    named = {"nobody": "nobody", "analyst": "ann", "admin": "boss", "superuser": "root"}
    return {"stranger": AnonymousUser(), **{who: User.objects.get(username=name) for who, name in named.items()}}


def _problem(world: World, name: str, person: str, method: str) -> str:
    """ "" if the answer is as the table has it."""
    mine = granted(name, person)
    answer = asked(world, person, method, world.path(name))
    status, to_sign_in = answer.status_code, answer.headers.get("Location", "").startswith("/login/")
    if status >= 500 and name != "readyz":  # 503 where no worker runs
        return f"{status}"
    if name.startswith("api:") and name != "api:openapi" and method in mine:
        return "" if status == 401 else f"{status}, without a token"
    if method in mine:
        refused = status in (401, 403, 404, 405) or (
            to_sign_in and name not in ("home", "logout", "ratings:sign_in_code")
        )
        return f"{status}, though granted" if refused and not (status == 404 and name in NOT_YET) else ""
    if person == "stranger" and not mine:
        return "" if status == 302 and to_sign_in else f"{status}, not sent to sign in"
    if not mine and method in possible(name, person):
        return "" if status == 404 else f"{status}, not hidden"
    return "" if status in (404, 405) else f"{status}, though not granted"


def possible(name: str, person: str) -> frozenset[str]:
    """What somebody with such an account could have somewhere: where it is not theirs it must not even seem to exist."""
    kinds = {"stranger": ROLES[:1], "superuser": ROLES[6:], "admin": ROLES[1:6], "other admin": ROLES[1:6]}
    return frozenset[str]().union(*(TABLE[name][role] for role in kinds.get(person, ROLES[1:5])))


def test_fragments_for_strangers_are_a_401(world: World) -> None:
    for name in names():
        if not granted(name, "stranger"):
            answer = asked(world, "stranger", "GET", world.path(name), **{"HX-Request": "true"})
            assert answer.status_code == 401, name


def test_an_address_without_a_row_does_not_exist(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(access_table.TABLE, "ratings:studies")
    for person in PEOPLE:
        assert asked(world, person, "GET", "/studies/").status_code == 404


def test_what_is_not_yours_looks_like_what_does_not_exist(world: World) -> None:
    missing = "0f5c2a52-4d0c-4d5e-9b7e-1f1f6d0b9a55"
    pairs = [
        ("other rater", world.path("ratings:rate"), f"/rate/{missing}/"),
        ("other rater", world.path("ratings:next"), f"/rate/study/{missing}/"),
        ("other admin", "/studies/walked/", "/studies/nowhere/"),
        ("analyst", "/studies/other/", "/studies/nowhere/"),
        ("rater", world.path("simulation:episode"), f"/episodes/{missing}/"),
        ("rater", "/admin/", "/administrator/"),
        ("other admin", world.path("ratings:job"), f"/jobs/{missing}/"),
        ("other admin", world.path("ratings:job_file"), f"/jobs/{missing}/files/1/"),
        ("rater", world.path("ratings:benchmark"), f"/benchmarks/{missing}/"),
        ("other admin", "/studies/walked/export/", "/studies/nowhere/export/"),
        ("other admin", "/studies/walked/machines/", "/studies/nowhere/machines/"),
        ("admin", "/studies/walked/results.json", "/studies/nowhere/results.json"),  # sealed
        ("admin", "/studies/walked/tables/rates.csv", "/studies/walked/tables/none.csv"),
        ("admin", "/studies/walked/figures/rates.svg", "/studies/walked/figures/none.svg"),
    ]
    for person, foreign, none in pairs:
        one, two = asked(world, person, "GET", foreign), asked(world, person, "GET", none)
        assert (one.status_code, one.content) == (two.status_code, two.content) == (404, two.content)
        assert dict(one.headers) == dict(two.headers) or set(one.headers) ^ set(two.headers) <= {"Vary"}


BACK_OFFICE = ("/admin/", "/admin/login/", "/admin/ratings/study/", "/admin/auth/user/", "/admin/nowhere/")


def test_the_back_office_is_for_superusers_only(world: World) -> None:
    for path in BACK_OFFICE:
        for person in PEOPLE[:-1]:
            for method in (*METHODS, *NOBODYS):
                assert asked(world, person, method, path).status_code == 404, (person, method, path)
    assert [asked(world, "superuser", "GET", path).status_code for path in BACK_OFFICE] == [200, 302, 200, 200, 404]


LOGGED = {"ratings:ratings_csv", "ratings:admin_link", "ratings:unblind_study"}


# What a rater's own reading leaves: that an item was opened, and until when it is theirs.
OPENED = {"ratings:rate": "ratings_assignment", "ratings:next": "ratings_assignment"}


@pytest.mark.parametrize("person", ["superuser", "analyst", "rater", "stranger"])
def test_reading_changes_nothing(world: World, person: str) -> None:
    """Every page, fetched: nothing is written but sessions, prompt sets (stored when first read) and logs of copies taken."""
    changed = []
    for name in sorted(names()):
        for method in {"GET", "HEAD"} & granted(name, person) if name not in LOGGED else ():
            with Writes() as written, transaction.atomic():
                world.ask(person, method, world.path(name))
                transaction.set_rollback(True)
            own = OPENED.get(name, "nothing") if person == "rater" else "nothing"
            changed += [f"{method} {name}: {sql[:120]}" for sql in written.statements if own not in sql]
    assert changed == []


class Writes:
    """Statements that write rows while it is entered, by Django's own hook for every statement."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def __enter__(self) -> "Writes":
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


def test_the_watch_on_writes_sees_one(world: World) -> None:
    with Writes() as written:
        Membership.objects.filter(study=world.study).update(role="admin")
    assert len(written.statements) == 1


# The functions behind the pages


def test_a_rater_reaches_own_assignments_and_no_others(world: World) -> None:
    own = serving.next_assignment(world.seat)
    other = study_factory.seat(world.study, "R02")
    foreign = serving.next_assignment(other)
    assert own and foreign and access.assignment_for(world.seat.user, own.code) == own
    for user, code in ((world.seat.user, foreign.code), (AnonymousUser(), own.code), (other.user, own.code)):
        with pytest.raises(Http404):
            access.assignment_for(user, code)


def test_showing_an_item_reads_no_source(world: World, django_assert_max_num_queries: Any) -> None:
    own, user = serving.next_assignment(world.seat), world.seat.user
    with django_assert_max_num_queries(1) as seen:
        payload = access.assignment_for(user, own.code).item.payload
    assert payload["kind"] == "transition"
    assert "itemsource" not in seen.captured_queries[0]["sql"]


def test_roles_in_a_study(world: World) -> None:
    users = {name: User.objects.get(username=name) for name in ("boss", "other boss", "ann", "nobody", "root")}
    roles = {name: access.role_in(user, world.study) for name, user in users.items()}
    assert roles == {"boss": "admin", "other boss": "", "ann": "analyst", "nobody": "", "root": "superuser"}
    assert access.role_in(AnonymousUser(), world.study) == ""
    assert list(access.studies_of(users["ann"])) == [world.study]
    Membership.objects.create(study=world.study, user=users["other boss"], role="admin")
    assert access.role_in(users["other boss"], world.study) == "admin"


def test_who_made_a_study_and_is_staff_no_more_has_no_role_in_it(world: World) -> None:
    User.objects.filter(username="boss").update(is_staff=False)
    boss = User.objects.get(username="boss")
    assert access.role_in(boss, world.study) == "" and not access.studies_of(boss).exists()


def test_a_deactivated_accounts_session_is_over_at_once(world: World) -> None:
    User.objects.filter(username="boss").update(is_active=False)
    answer = asked(world, "admin", "GET", reverse("ratings:study", args=["walked"]))
    assert answer.status_code == 302 and answer.headers["Location"].startswith("/login/")


def test_signing_out_ends_the_session_for_its_cookie_too(world: World) -> None:
    assert world.ask("admin", "POST", "/logout/").status_code == 302
    assert world.ask("admin", "GET", "/studies/").status_code == 302  # the same cookie as before


def test_nobody_signs_in_to_go_elsewhere(client: Client) -> None:
    User.objects.create_user("kim", password="seven grey pipettes")
    sent = {"username": "kim", "password": "seven grey pipettes", "next": "https://evil.example.org/"}
    assert client.post("/login/", sent).headers["Location"] == "/"


@pytest.mark.parametrize("own", ["{}", "0{}", "+{}", "%20{}"])
def test_nobody_sets_their_own_password_in_the_back_office_without_the_old_one(client: Client, own: str) -> None:
    root = User.objects.create_superuser("root", password="seven grey pipettes")
    other = User.objects.create_user("kim")
    client.force_login(root)
    new = {"password1": "eight blue beakers", "password2": "eight blue beakers", "usable_password": "true"}
    address = f"/admin/auth/user/{own.format(root.pk)}/password/"
    assert client.get(address).status_code == 403
    assert client.post(address, new).status_code == 403
    root.refresh_from_db()
    assert root.check_password("seven grey pipettes")
    assert client.post(f"/admin/auth/user/{other.pk}/password/", new).status_code == 302
