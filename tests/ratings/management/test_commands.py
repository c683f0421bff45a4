import csv
import io
import json
import re
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser
from django.core.management import CommandError, call_command

from ratings.accounts import signing_in
from ratings.models import Rating, Study
from ratings.raters import invitations
from ratings.studies import lifecycle, running_raters
from simulation.management import local_address
from tests.support import run_factory, study_factory

pytestmark = pytest.mark.django_db


def call(*arguments: object, **options: object) -> str:
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue()


def refused(*arguments: object) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        call(*arguments)
    return caught.value.returncode, str(caught.value)


@pytest.fixture
def document(tmp_path: Path) -> Path:
    run_factory.create_pool()
    path = tmp_path / "protocol.json"
    path.write_text(json.dumps(study_factory.build_protocol()))
    return path


def test_commands_alone_suffice_from_a_study_document_to_the_exported_csv(document, admin_user) -> None:
    said = call("create_study", document, "--open", "--raters", 6)
    assert said.count("http://127.0.0.1:8000/r/") == 6
    said = call("simulate_raters", "small-study", "--raters", 6, "--seed", 3)
    assert "Links revoked, never opened: R01, R02, R03, R04, R05, R06" in said
    assert Rating.objects.count() == 20
    blinded = list(csv.DictReader(io.StringIO(call("export_ratings", "small-study", "--blinded"))))
    assert {row["source"] for row in blinded} == {""}
    call("unblind", "small-study", "--by", admin_user.username)
    rows = list(csv.DictReader(io.StringIO(call("export_ratings", Study.objects.get().code))))
    assert [row["simulated"] for row in rows] == ["1"] * 20
    assert {row["perturbation"] for row in rows} == {"none", "obvious", "subtle"}


def test_rater_link_command_prints_a_working_invitation(document) -> None:
    call("create_study", document, "--open")
    link = call("rater_link", "small-study", "R01", "--url", "https://lab.example/").strip()
    assert link.startswith("https://lab.example/r/")
    found = invitations.find_invitation(link.split("/")[-2])
    assert invitations.accept_invitation(found, AnonymousUser(), invitations.JoinForm()).label == "R01"


def test_sign_in_link_command_prints_a_working_link(admin_user) -> None:
    link = call("sign_in_link", admin_user.username).strip()
    assert link.startswith("http://127.0.0.1:8000/sign-in/")
    assert signing_in.open_link(link.split("/")[-2], AnonymousUser(), "admin").user == admin_user


def test_links_of_commands_name_the_address_that_is_served(document, admin_user, settings, tmp_path) -> None:
    settings.VAR_DIR = tmp_path
    assert local_address.store_address("127.0.0.1", 8080) == "http://127.0.0.1:8080"
    assert call("sign_in_link", admin_user.username).startswith("http://127.0.0.1:8080/sign-in/")
    said = call("create_study", document, "--open", "--raters", 6)
    assert said.count("http://127.0.0.1:8080/r/") == 6
    # A file that something else wrote is not used.
    (tmp_path / "address").write_text("javascript:alert(1)")
    assert call("sign_in_link", admin_user.username).startswith("http://127.0.0.1:8000/sign-in/")


@pytest.mark.parametrize("more", [(), ("--url", "http://elsewhere.example")])
def test_links_of_all_commands_start_with_the_site_url(document, admin_user, settings, more) -> None:
    settings.SITE_URL = "https://ratings.example"
    said = call("create_study", document, "--open", "--raters", 6, *more)
    said += call("rater_link", "small-study", "R01", *more) + call("sign_in_link", admin_user.username, *more)
    links = re.findall(r"https?://\S+", said)
    assert len(links) == 6 + 1 + 1 and all(link.startswith("https://ratings.example/") for link in links)


def test_commands_build_links_only_through_the_url_builder() -> None:
    """`email_messages.make_url_builder` takes WETBENCH_URL into account."""
    folders = [Path(django_settings.BASE_DIR) / room / "management" / "commands" for room in ("ratings", "simulation")]
    commands = [
        path
        for folder in folders
        for path in folder.glob("*.py")
        if re.search("http://|add_url_option", path.read_text())
    ]
    assert {path.stem for path in commands} >= {"create_study", "invite_raters", "rater_link", "sign_in_link"}
    assert [path.stem for path in commands if "email_messages.make_url_builder" not in path.read_text()] == []


def test_create_study_lists_all_problems_of_a_document_and_creates_nothing(tmp_path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(study_factory.build_protocol(kind="taste", sources=[{"cast": "gpt", "count": 1}])))
    code, said = refused("create_study", path)
    assert code == 2
    assert "kind: is 'taste'" in said
    assert "sources[0].cast: is 'gpt'; allowed: human, offline" in said
    assert not Study.objects.exists()


@pytest.mark.parametrize("text", ["{", "\xff"])
def test_create_study_rejects_a_file_that_is_not_json(tmp_path, text) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    assert refused("create_study", path)[0] == 2
    assert refused("create_study", tmp_path / "missing.json") == (
        2,
        f"{tmp_path}/missing.json: No such file or directory",
    )


def test_create_study_leaves_no_draft_if_it_cannot_be_opened(document, tmp_path) -> None:
    document.write_text(json.dumps(study_factory.build_protocol(sources=[{"cast": "offline", "count": 99}])))
    code, said = refused("create_study", document, "--open")
    assert (code, said) == (
        1,
        "Nothing was created: needs 99 items by offline, the pool holds 10: run more episodes",
    )
    assert not Study.objects.exists()


def test_commands_list_known_names_if_a_name_is_unknown(document, admin_user) -> None:
    call("create_study", document, "--open")
    unknown = "There is no study 'nope'. Known studies: small-study"
    assert refused("export_ratings", "nope") == (2, unknown)
    assert refused("unblind", "nope", "--by", admin_user.username) == (2, unknown)
    assert refused("rater_link", "nope", "R01") == (2, unknown)
    assert refused("simulate_raters", "nope", "--raters", 1, "--seed", 1) == (2, unknown)
    assert "Raters: R01, R02" in refused("rater_link", "small-study", "R99")[1]
    assert refused("unblind", "small-study", "--by", "nobody") == (2, "There is no staff user 'nobody'. Known: admin")
    assert refused("sign_in_link", "nobody") == (2, "There is no staff user 'nobody'. Known: admin")


def test_export_ratings_command_for_a_sealed_study_requires_the_option_blinded(document) -> None:
    call("create_study", document, "--open")
    code, said = refused("export_ratings", "small-study")
    assert code == 2
    assert said.endswith("until then use --blinded")


def test_simulate_raters_rejects_a_wrong_sensitivity_before_using_rater_places(document) -> None:
    call("create_study", document, "--open")
    said = refused("simulate_raters", "small-study", "--raters", 2, "--seed", 1, "--sensitivity-subtle", 1.5)
    assert said == (2, "subtle is 1.5; it must be from 0.001 to 0.999")
    assert len(running_raters.list_open_places(Study.objects.get())) == 6


def test_create_study_rejects_deeply_nested_json(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    code, said = refused("create_study", path)
    assert code == 2 and "not JSON" in said


@pytest.mark.parametrize("number", [0, 201, 100_000])
def test_create_study_accepts_one_to_two_hundred_raters(document, number: int) -> None:
    code, said = refused("create_study", document, "--open", "--raters", number)
    assert code == 2 and "--raters must be from 1 to 200" in said
    assert not Study.objects.exists()


def test_create_study_does_not_open_a_study_without_items(document) -> None:
    document.write_text(json.dumps(study_factory.build_protocol(sources=[])))
    code, said = refused("create_study", document, "--open")
    assert (code, said) == (1, "Nothing was created: Small study has no items: add a source, or import items")
    assert not Study.objects.exists()


def test_create_study_opens_a_crossed_study_only_with_its_own_number_of_raters(document) -> None:
    document.write_text(json.dumps(study_factory.build_protocol(design="crossed")))
    code, said = refused("create_study", document, "--open", "--raters", 3)
    assert code == 1 and said.endswith("every rater rates every item: it needs 2 raters, not 3")
    assert call("create_study", document, "--open", "--raters", 2).count("/r/") == 2


@pytest.mark.parametrize("status", ["open", "paused", "closed"])
def test_unblind_command_closes_an_open_study_first(document, admin_user, status) -> None:
    call("create_study", document, "--open")
    study = Study.objects.get()
    if status != "open":
        {"paused": lifecycle.pause_study, "closed": lifecycle.close_study}[status](study)
    call("unblind", "small-study", "--by", admin_user.username)
    call("unblind", "small-study", "--by", admin_user.username)
    assert list(study.events.values_list("kind", flat=True))[-2:] == ["closed", "unblinded"]


def test_unblind_command_rejects_a_draft(document, admin_user) -> None:
    call("create_study", document)
    said = refused("unblind", "small-study", "--by", admin_user.username)
    assert said == (2, "Small study is draft; only a study that is closed can be unblinded")
