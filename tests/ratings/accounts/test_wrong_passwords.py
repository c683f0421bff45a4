"""Too many wrong passwords: what is counted, for how long, and what is told to whoever gave them."""

import sys
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ratings.accounts import throttling
from tests.support import seats
from tests.support.account_steps import PASSWORD, try_
from tests.support.steps import race
from wetbench_site.client_address import client_address

pytestmark = pytest.mark.django_db


@pytest.mark.both_databases
def test_eight_wrong_passwords_lock_the_pair_of_name_and_address_and_nothing_else(client: Client, kim: User) -> None:
    User.objects.create_user("lee", password=PASSWORD)
    answers = [try_(client, "kim", "wrong").status_code for _ in range(8)]
    assert answers == [*[200] * 7, 429]
    locked = try_(client, "kim", PASSWORD)
    assert locked.status_code == 429 and 890 <= int(locked["Retry-After"]) <= 900
    assert "Try again in 15 minutes" in locked.content.decode()
    assert try_(client, "lee", PASSWORD).status_code == 302
    assert try_(Client(), "kim", PASSWORD, REMOTE_ADDR="192.0.2.7").status_code == 302


def test_an_unknown_name_a_closed_account_and_a_known_one_are_answered_alike(client: Client, kim: User) -> None:
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    pages = {}
    for name in ("kim", "gone", "nobody"):
        said = [try_(client, name, "wrong") for _ in range(9)]
        pages[name] = [(one.status_code, _without_token(one, name)) for one in said]
    assert pages["kim"] == pages["gone"] == pages["nobody"]


def _without_token(response: Any, name: str) -> str:
    lines = response.content.decode().replace(name, "NAME").splitlines()
    return "\n".join(line for line in lines if "csrf" not in line.lower())


def test_one_hash_is_made_whoever_is_named(client: Client, kim: User) -> None:
    """The time is that of one hash: of a wrong password, of nobody, of a closed account, of one that is locked."""
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    User.objects.create_user("link")  # has no password
    for _ in range(8):
        try_(client, "lee", "wrong")
    made = {}
    for name in ("kim", "kim@example.org", "gone", "link", "nobody", "nobody@example.org", "lee"):
        with _Hashes() as hashes:
            try_(client, name, "wrong")
        made[name] = hashes.count
    assert set(made.values()) == {1}, made


class _Hashes:
    """Counts what the hasher of the tests does, by Python's own hook for calls."""

    def __enter__(self) -> "_Hashes":
        self.count = 0
        sys.setprofile(self._called)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.setprofile(None)

    def _called(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == "encode" and code.co_filename.endswith("auth/hashers.py"):
            self.count += 1


@pytest.mark.both_databases
def test_name_and_address_of_one_account_share_their_count(client: Client, kim: User) -> None:
    names = ["kim", "kim@example.org", "KIM@example.org", "kim"] * 2
    assert [try_(client, name, "wrong").status_code for name in names][-1] == 429
    assert AccessAttempt.objects.get().username == "kim"


def test_the_right_password_wipes_the_count_and_a_quarter_of_an_hour_lifts_the_lock(client: Client, kim: User) -> None:
    for _ in range(7):
        try_(client, "kim", "wrong")
    assert try_(client, "kim", PASSWORD).status_code == 302
    assert not AccessAttempt.objects.exists()
    for _ in range(8):
        try_(Client(), "kim", "wrong")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=15, seconds=1))
    assert try_(Client(), "kim", PASSWORD).status_code == 302


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_twenty_wrong_passwords_at_once_seven_at_most_are_told_so(kim: User) -> None:
    """Fewer, where one is counted between another's being counted and its answer."""
    told = race(lambda: try_(Client(), "kim", "wrong").status_code, 20)
    assert told.count(200) <= 7 and told.count(200) + told.count(429) == 20
    assert AccessAttempt.objects.get().failures_since_start >= 8


@pytest.mark.both_databases
def test_a_right_guess_among_many_at_once_is_refused_once_eight_were_wrong(
    client: Client, kim: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eighth wrong one is counted while the right one, which came before the lock, is hashed."""
    for _ in range(7):
        try_(client, "kim", "wrong")
    verify = MD5PasswordHasher.verify

    def meanwhile(hasher: MD5PasswordHasher, password: str, encoded: str) -> bool:
        if password == PASSWORD:
            try_(Client(), "kim", "wrong")
        return verify(hasher, password, encoded)

    monkeypatch.setattr(MD5PasswordHasher, "verify", meanwhile)
    assert try_(client, "kim", PASSWORD).status_code == 429 and "_auth_user_id" not in client.session
    assert AccessAttempt.objects.get().failures_since_start == 8


@pytest.mark.both_databases
def test_a_name_that_is_nobodys_is_kept_and_logged_as_a_hash_alone(
    client: Client, kim: User, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be a password in the wrong field."""
    for name in ("kim@example.org", *[PASSWORD] * 9, f"{PASSWORD}@example.org"):
        try_(client, name, "wrong")
    records = [record.__dict__ for record in caplog.records]
    told = [record["facts"]["name"] for record in records if record["name"] == "wetbench.security"]
    assert told[0] == "kim" and len(set(told)) == 3 and all(name.startswith("nobody ") for name in told[1:])
    kept = list(AccessAttempt.objects.values())
    assert len(kept) == 3 and PASSWORD not in repr((records, kept))


def test_who_goes_on_guessing_does_not_keep_the_owner_out(client: Client, kim: User) -> None:
    for _ in range(8):
        try_(client, "kim", "wrong")
    early = timezone.now() - timedelta(minutes=14)
    AccessAttempt.objects.update(attempt_time=early)
    try_(client, "kim", "wrong")
    assert AccessAttempt.objects.get().attempt_time == early


def test_a_stolen_session_cannot_guess_the_password_where_it_is_asked_again(client: Client, kim: User) -> None:
    client.force_login(kim)
    wrong = {"old_password": "wrong", "new_password1": "nine red funnels", "new_password2": "nine red funnels"}
    answers = [client.post("/account/", wrong).status_code for _ in range(8)]
    assert answers == [*[422] * 7, 429]
    assert (
        "wrong" not in AccessAttempt.objects.get().post_data and "funnels" not in AccessAttempt.objects.get().post_data
    )


def test_no_page_but_signing_in_looks_at_the_counts(
    client: Client, kim: User, django_assert_max_num_queries: Any
) -> None:
    client.force_login(seats.taken(seats.seat()).user)
    with django_assert_max_num_queries(20) as asked:
        client.get("/rate/")
        client.get("/rate/profile/")
    told = [query["sql"] for query in asked.captured_queries]
    assert not [sql for sql in told if "axes" in sql or "otp_" in sql or sql.startswith(("INSERT", "UPDATE", "DELETE"))]


@pytest.mark.parametrize(
    ("proxies", "heard", "address"),
    [
        (0, "203.0.113.9", "127.0.0.1"),  # nobody's word is taken
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "198.51.100.1, 203.0.113.9", "203.0.113.9"),  # what the caller wrote himself stands before
        (2, "198.51.100.1, 203.0.113.9", "198.51.100.1"),
        (2, "203.0.113.9", "127.0.0.1"),
        (1, "rubbish", None),
    ],
)
def test_the_address_counted_is_the_one_our_own_proxy_saw(
    rf: Any, settings: Any, proxies: int, heard: str, address: str
) -> None:
    settings.PROXIES = proxies
    assert client_address(rf.get("/", headers={"X-Forwarded-For": heard})) == address


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),  # the same household
        ("::ffff:203.0.113.9", "203.0.113.9"),  # IPv4, as a socket for both tells it
    ],
)
def test_of_an_ipv6_address_its_network_is_counted(rf: Any, address: str, counted: str) -> None:
    assert throttling.counted_address(rf.get("/", REMOTE_ADDR=address)) == counted
