"""Tests of the login limit: what is counted, for how long, and what the sign-in page reveals."""

import sys
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ratings.accounts import login_throttling, signing_in
from tests.support import invited_raters
from tests.support.account_steps import PASSWORD, post_login
from tests.support.steps import run_concurrently
from wetbench_site.client_address import get_client_address

pytestmark = pytest.mark.django_db


@pytest.mark.both_databases
def test_login_limit_locks_only_the_pair_of_name_and_address_after_eight_wrong_passwords(
    client: Client, kim: User
) -> None:
    User.objects.create_user("lee", password=PASSWORD)
    answers = [post_login(client, "kim", "wrong").status_code for _ in range(8)]
    assert answers == [*[200] * 7, 429]
    locked = post_login(client, "kim", PASSWORD)
    assert locked.status_code == 429 and 890 <= int(locked["Retry-After"]) <= 900
    assert "Try again in 15 minutes" in locked.content.decode()
    assert post_login(client, "lee", PASSWORD).status_code == 302
    assert post_login(Client(), "kim", PASSWORD, REMOTE_ADDR="192.0.2.7").status_code == 302


def test_sign_in_page_is_the_same_for_unknown_deactivated_and_known_accounts(client: Client, kim: User) -> None:
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    pages = {}
    for name in ("kim", "gone", "nobody"):
        said = [post_login(client, name, "wrong") for _ in range(9)]
        pages[name] = [(one.status_code, remove_token_and_name(one, name)) for one in said]
    assert pages["kim"] == pages["gone"] == pages["nobody"]


def remove_token_and_name(response: Any, name: str) -> str:
    lines = response.content.decode().replace(name, "NAME").splitlines()
    return "\n".join(line for line in lines if "csrf" not in line.lower())


def test_sign_in_hashes_the_password_once_for_known_and_unknown_user_names(client: Client, kim: User) -> None:
    """Equal hashing means equal time for wrong passwords, unknown users, deactivated and locked accounts."""
    User.objects.create_user("gone", password=PASSWORD, is_active=False)
    User.objects.create_user("link")  # has no password
    for _ in range(8):
        post_login(client, "lee", "wrong")
    made = {}
    for name in ("kim", "kim@example.org", "gone", "link", "nobody", "nobody@example.org", "lee"):
        with HashCounter() as hashes:
            post_login(client, name, "wrong")
        made[name] = hashes.count
    assert set(made.values()) == {1}, made


class HashCounter:
    """Count the hashes that the test hasher computes, with a Python profile hook."""

    def __enter__(self) -> "HashCounter":
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
def test_login_limit_counts_user_name_and_address_of_an_account_together(client: Client, kim: User) -> None:
    names = ["kim", "kim@example.org", "KIM@example.org", "kim"] * 2
    assert [post_login(client, name, "wrong").status_code for name in names][-1] == 429
    assert AccessAttempt.objects.get().username == "kim"


def test_login_limit_is_reset_by_the_right_password_and_ends_after_15_minutes(client: Client, kim: User) -> None:
    for _ in range(7):
        post_login(client, "kim", "wrong")
    assert post_login(client, "kim", PASSWORD).status_code == 302
    assert not AccessAttempt.objects.exists()
    for _ in range(8):
        post_login(Client(), "kim", "wrong")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=15, seconds=1))
    assert post_login(Client(), "kim", PASSWORD).status_code == 302


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_login_limit_checks_at_most_seven_of_twenty_concurrent_wrong_passwords(kim: User) -> None:
    """Fewer than seven if an attempt is counted between the count of another attempt and its response."""
    told = run_concurrently(lambda: post_login(Client(), "kim", "wrong").status_code, 20)
    assert told.count(200) <= 7 and told.count(200) + told.count(429) == 20
    assert AccessAttempt.objects.get().failures_since_start >= 8


@pytest.mark.both_databases
def test_login_limit_rejects_a_right_password_during_the_eighth_wrong_attempt(
    client: Client, kim: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eighth wrong password is counted while the right one, sent before the lock, is being hashed."""
    for _ in range(7):
        post_login(client, "kim", "wrong")
    verify = MD5PasswordHasher.verify

    def meanwhile(hasher: MD5PasswordHasher, password: str, encoded: str) -> bool:
        if password == PASSWORD:
            post_login(Client(), "kim", "wrong")
        return verify(hasher, password, encoded)

    monkeypatch.setattr(MD5PasswordHasher, "verify", meanwhile)
    assert post_login(client, "kim", PASSWORD).status_code == 429 and "_auth_user_id" not in client.session
    assert AccessAttempt.objects.get().failures_since_start == 8


@pytest.mark.both_databases
def test_login_limit_stores_and_logs_unknown_names_only_as_a_hash(
    client: Client, kim: User, caplog: pytest.LogCaptureFixture
) -> None:
    """The name may be a password typed into the wrong field."""
    for name in ("kim@example.org", *[PASSWORD] * 9, f"{PASSWORD}@example.org"):
        post_login(client, name, "wrong")
    records = [record.__dict__ for record in caplog.records]
    told = [record["facts"]["name"] for record in records if record["name"] == "wetbench.security"]
    assert told[0] == "kim" and len(set(told)) == 3 and all(name.startswith("nobody ") for name in told[1:])
    kept = list(AccessAttempt.objects.values())
    assert len(kept) == 3 and PASSWORD not in repr((records, kept))


def test_login_limit_is_not_extended_by_attempts_during_the_lock(client: Client, kim: User) -> None:
    for _ in range(8):
        post_login(client, "kim", "wrong")
    early = timezone.now() - timedelta(minutes=14)
    AccessAttempt.objects.update(attempt_time=early)
    post_login(client, "kim", "wrong")
    assert AccessAttempt.objects.get().attempt_time == early


def test_login_limit_applies_to_the_password_change_form(client: Client, kim: User) -> None:
    client.force_login(kim)
    wrong = {"old_password": "wrong", "new_password1": "nine red funnels", "new_password2": "nine red funnels"}
    answers = [client.post("/account/", wrong).status_code for _ in range(8)]
    assert answers == [*[422] * 7, 429]
    assert (
        "wrong" not in AccessAttempt.objects.get().post_data and "funnels" not in AccessAttempt.objects.get().post_data
    )


def test_login_limit_is_queried_only_by_the_sign_in_page(
    client: Client, kim: User, django_assert_max_num_queries: Any
) -> None:
    client.force_login(invited_raters.join_by_link(invited_raters.get_rater()).user)
    with django_assert_max_num_queries(20) as asked:
        client.get("/rate/")
        client.get("/rate/profile/")
    told = [query["sql"] for query in asked.captured_queries]
    assert not [sql for sql in told if "axes" in sql or "otp_" in sql or sql.startswith(("INSERT", "UPDATE", "DELETE"))]


@pytest.mark.parametrize(
    ("proxies", "heard", "address"),
    [
        (0, "203.0.113.9", "127.0.0.1"),  # the header is not trusted
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "198.51.100.1, 203.0.113.9", "203.0.113.9"),  # the part written by the client comes first
        (2, "198.51.100.1, 203.0.113.9", "198.51.100.1"),
        (2, "203.0.113.9", "127.0.0.1"),
        (1, "rubbish", None),
    ],
)
def test_client_address_is_the_one_reported_by_the_trusted_proxy(
    rf: Any, settings: Any, proxies: int, heard: str, address: str
) -> None:
    settings.PROXIES = proxies
    assert get_client_address(rf.get("/", headers={"X-Forwarded-For": heard})) == address


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::"),  # the same network
        ("::ffff:203.0.113.9", "203.0.113.9"),  # IPv4, as a dual-stack socket reports it
    ],
)
def test_login_limit_counts_ipv6_addresses_by_network(rf: Any, address: str, counted: str) -> None:
    assert login_throttling.counted_address(rf.get("/", REMOTE_ADDR=address)) == counted


def guess(name: str, address: str, number: int = 1) -> int:
    """Give this many wrong passwords from this address, and return the last status."""
    return [post_login(Client(), name, "wrong", REMOTE_ADDR=address).status_code for _ in range(number)][-1]


def test_account_has_a_ceiling_of_wrong_passwords_over_all_addresses(kim: User, settings: Any) -> None:
    settings.GUESSES_PER_ACCOUNT = 20
    assert [guess("kim", f"192.0.2.{n}", 5) for n in range(4)] == [200, 200, 200, 429]
    locked = post_login(Client(), "kim", PASSWORD, REMOTE_ADDR="192.0.2.99")
    assert locked.status_code == 429 and 290 <= int(locked["Retry-After"]) <= 300
    assert "Try again in 5 minutes" in locked.content.decode()
    # Other accounts are not affected, and a link still signs in.
    User.objects.create_user("lee", password=PASSWORD)
    assert post_login(Client(), "lee", PASSWORD, REMOTE_ADDR="192.0.2.99").status_code == 302
    browser = Client()
    token = signing_in.create_link(kim, "rater")
    assert browser.post(f"/r/{token}/").status_code == 302 and "_auth_user_id" in browser.session


def test_lock_of_an_account_is_short_and_not_prolonged_by_further_guesses(kim: User, settings: Any) -> None:
    settings.GUESSES_PER_ACCOUNT = 10
    for n in range(2):
        guess("kim", f"192.0.2.{n}", 5)
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=4))
    assert guess("kim", "192.0.2.50", 3) == 429
    assert not AccessAttempt.objects.filter(ip_address="192.0.2.50").exists()
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=5, seconds=1))
    assert post_login(Client(), "kim", PASSWORD, REMOTE_ADDR="192.0.2.99").status_code == 302


def test_address_has_a_ceiling_of_wrong_passwords_over_all_accounts(kim: User, settings: Any) -> None:
    settings.GUESSES_PER_ADDRESS = 20
    assert [guess(f"nobody-{n}", "192.0.2.1") for n in range(20)] == [200] * 19 + [429]
    locked = post_login(Client(), "kim", PASSWORD, REMOTE_ADDR="192.0.2.1")
    assert locked.status_code == 429 and 890 <= int(locked["Retry-After"]) <= 900
    assert post_login(Client(), "kim", PASSWORD, REMOTE_ADDR="192.0.2.2").status_code == 302


def test_guesses_of_strangers_do_not_stop_a_signed_in_person_who_confirms_the_password(
    kim: User, settings: Any
) -> None:
    browser = Client()
    post_login(browser, "kim", PASSWORD)
    settings.GUESSES_PER_ACCOUNT = 4
    guess("kim", "192.0.2.1", 4)
    assert post_login(Client(), "kim", PASSWORD).status_code == 429
    request = browser.get("/account/").wsgi_request
    login_throttling.record_attempted_name(request, "kim")
    request.axes_attempt_time = None
    assert not login_throttling.is_locked(request, "kim")


def test_ceilings_are_above_the_limit_of_a_pair(settings: Any) -> None:
    assert settings.AXES_FAILURE_LIMIT < settings.GUESSES_PER_ACCOUNT < settings.GUESSES_PER_ADDRESS
    assert settings.ACCOUNT_LOCK_TIME < settings.AXES_COOLOFF_TIME
