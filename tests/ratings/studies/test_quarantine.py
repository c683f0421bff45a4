"""Items whose text might reveal their source are held until a person decides."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ratings.models import Quarantine, Study
from ratings.protocol import study_protocol
from ratings.studies import lifecycle, pool, quarantine
from ratings.studies.quarantine import Secret
from ratings.studies.quarantine_excerpts import build_excerpts, describe_place
from simulation.models import Twin
from tests.support import run_factory, study_factory, study_log_texts

pytestmark = pytest.mark.django_db

WHY = "the volume that was poured into the flask is far too large"


def payload(description: str, **more: object) -> dict[str, object]:
    return {"kind": "transition", "observations": [{"type": "visual", "description": description, "value": ""}], **more}


@pytest.mark.parametrize(
    "text",
    ["SECRET: so it is", "A perturbation", "deliberately wrong", "intentionally wrong", "IMPLAUSIBLE", "error_type 2",
     "error types", "an incorrect transition", "per\u200bturbed", "ｐｅｒｔｕｒｂｅｄ",
     "a secret", "unintentional", "is_perturbed", "Intentionally warm"],
)  # fmt: skip
def test_quarantine_finds_suspicious_words_in_any_spelling(text: str) -> None:
    assert [place for place, _ in quarantine.find_reasons(payload(text), {})] == ["observations[0].description"]


@pytest.mark.parametrize("text", ["The secretion is clear", "secretory", "A typed error", "undeliberated", "plausible"])
def test_quarantine_accepts_ordinary_words(text: str) -> None:
    assert quarantine.find_reasons(payload(text), {}) == []


def test_quarantine_detects_six_consecutive_words_of_the_explanation_but_not_five() -> None:
    secret = Secret(WHY)
    six = payload("It seems the volume that was poured into a jar")  # the volume that was poured into: six
    five = payload("It seems the volume that was poured in a jar")
    assert "“the volume that was poured into”" in quarantine.find_reasons(six, {}, secret)[0][1]
    assert quarantine.find_reasons(five, {}, secret) == []


def test_quarantine_searches_the_goal_and_earlier_steps() -> None:
    context = {"goal": "See it", "time": "0 s", "steps": [{"action": "Perturb cells"}]}
    assert [place for place, _ in quarantine.find_reasons(payload("clear"), context)] == ["context.steps[0].action"]


def test_quarantine_accepts_words_of_the_original_the_goal_and_the_materials() -> None:
    said = payload("The volume that was poured into the flask")
    assert quarantine.find_reasons(said, {}, Secret(WHY, {"seen": "the volume that was poured into the flask"})) == []
    assert quarantine.find_reasons(said, {"goal": "See the volume that was poured into the flask"}, Secret(WHY)) == []
    assert (
        quarantine.find_reasons({**said, "before": ["the volume that was poured into the flask"]}, {}, Secret(WHY))
        == []
    )


def test_quarantine_accepts_words_that_the_secret_quotes() -> None:
    assert quarantine.find_reasons(payload("One clear band at about three hundred"), {}, Secret("“One clear band at about three hundred” is wrong")) == []  # fmt: skip


def test_quarantine_accepts_lists_of_readings() -> None:
    assert quarantine.find_reasons(payload("1.2, 1.3, 1.4 mL"), {}, Secret("read 1.2, 1.3, 1.4 mL and so on")) == []


@pytest.fixture
def study() -> Study:
    """A draft with a pool in which the text of one twin is suspicious."""
    run_factory.create_pool(10)
    twin = Twin.objects.filter(perturbation="subtle").first()
    assert twin
    twin.outcome["new_observations"] = [
        {"description": "deliberately wrong", "measurement_type": "visual", "value": ""}
    ]
    twin.save()
    return lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()))


def held(study: Study) -> list[quarantine.HeldItem]:
    return pool.take_inventory(study_protocol.load_protocol(study.protocol), study).held


def test_quarantine_holds_a_suspicious_item_until_it_is_released(study: Study) -> None:
    (one,) = held(study)
    assert one.found not in pool.list_usable_candidates(study_protocol.load_protocol(study.protocol), study)
    quarantine.record_decision(study, one, "released", User.objects.create_user("ada"))
    assert (
        held(study) == []
        and len(pool.list_usable_candidates(study_protocol.load_protocol(study.protocol), study)) == 30
    )
    assert study.events.filter(kind="quarantine", data__decision="released").count() == 1


def test_quarantine_excludes_a_dropped_item(study: Study) -> None:
    (one,) = held(study)
    quarantine.record_decision(study, one, "dropped", User.objects.create_user("ada"))
    assert [h.decision for h in held(study)] == ["dropped"]


def test_quarantine_excludes_a_dropped_item_that_is_no_longer_suspicious(study: Study) -> None:
    # For example in the list of words of a later release: a person's decision remains in force.
    protocol = study_protocol.load_protocol(study.protocol)
    clean = pool.list_usable_candidates(protocol)[0]
    Quarantine.objects.create(study=study, payload_sha256=clean.candidate.content, payload={}, decision="dropped")
    assert clean in pool.list_usable_candidates(protocol) and clean not in pool.list_usable_candidates(protocol, study)


def test_quarantine_release_applies_to_one_study_only(study: Study) -> None:
    (one,) = held(study)
    quarantine.record_decision(study, one, "released", User.objects.create_user("ada"))
    other = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(name="Another")))
    assert len(held(other)) == 1


def test_quarantine_decisions_are_refused_once_the_study_is_open(study: Study) -> None:
    (one,) = held(study)
    lifecycle.open_study(study)
    with pytest.raises(quarantine.DecisionError, match="frozen"):
        quarantine.record_decision(study, one, "released", User.objects.create_user("ada"))


def test_opening_stores_items_that_are_still_held(study: Study) -> None:
    lifecycle.open_study(study)
    assert Quarantine.objects.get(study=study).decision == ""
    assert "deliberately" not in str(list(study.items.values_list("payload", flat=True)))


def test_quarantine_page_shows_the_reason_and_stores_the_decision(study: Study, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("ratings:quarantine", args=[study.slug])
    assert "the word “deliberately”" in client.get(address).content.decode()
    (one,) = held(study)
    assert client.post(address, {"item": one.digest, "decision": "released"}).status_code == 302
    row = Quarantine.objects.get(study=study)
    assert (row.decision, row.payload_sha256, row.by.username) == ("released", one.digest, "root")
    assert "Nothing in quarantine" in client.get(address).content.decode()


def test_quarantine_page_shows_each_finding_in_its_sentence(study: Study, client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    page = client.get(reverse("ratings:quarantine", args=[study.slug])).content.decode()
    assert "<bdi>Observation 1, description</bdi>: <strong>the word “deliberately”</strong>" in page
    assert "<blockquote><bdi><mark>deliberately</mark> wrong</bdi></blockquote>" in page


def test_quarantine_decides_about_several_items_at_once_or_about_none(study: Study, client: Client) -> None:
    for twin in Twin.objects.filter(perturbation="obvious")[:2]:
        twin.outcome["new_observations"] = [{"description": "a secret", "measurement_type": "visual", "value": ""}]
        twin.save()
    digests = [one.digest for one in held(study)]
    assert len(digests) == 3
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("ratings:quarantine", args=[study.slug])
    refused = client.post(address, {"item": [*digests[:2], "x"], "decision": "dropped"}, follow=True)
    assert "Nothing was changed" in refused.content.decode()
    assert not Quarantine.objects.exists()
    done = client.post(address, {"item": digests[:2], "decision": "dropped"}, follow=True).content.decode()
    assert "2 items dropped. The decision is logged. 1 item left to decide." in done
    assert set(Quarantine.objects.values_list("payload_sha256", "decision")) == {(d, "dropped") for d in digests[:2]}


def test_excerpt_of_a_long_text_shows_the_words_around_the_finding(study: Study) -> None:
    (one,) = held(study)
    long = f"{'before ' * 40}Deliberately, wrong {'after ' * 40}"
    payload = {**one.found.payload, "observations": [{"type": "visual", "description": long, "value": ""}]}
    found = one._replace(found=one.found._replace(payload=payload))
    (excerpt,) = build_excerpts(found)
    assert excerpt.match == "Deliberately"
    assert excerpt.before.startswith("…before ") and excerpt.after.endswith("after…")
    assert 100 <= len(excerpt.before) <= 120 and 100 <= len(excerpt.after) <= 120


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("observations[1].value", "Observation 2, value"),
        ("after[0].properties[3][1]", "HeLa well 1 after the action, property"),
        ("action.parameters[0][1]", "Action, setting"),
        ("context.steps[0].action", "Earlier steps, step 1, action"),
        ("steps[4].observations[0].description", "Step 5, observation 1, description"),
        ("goal", "Goal"),
    ],
)
def test_place_of_a_finding_is_told_in_words(place: str, words: str) -> None:
    assert describe_place(place, {"after": [{"name": "HeLa well 1"}]}) == words


@pytest.mark.parametrize("sent", [{}, {"item": "x", "decision": "released"}])
def test_quarantine_form_without_a_held_item_changes_nothing(
    study: Study, client: Client, sent: dict[str, str]
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    client.post(reverse("ratings:quarantine", args=[study.slug]), sent)
    assert not Quarantine.objects.exists()


@pytest.fixture
def named(study: Study) -> Study:
    """A draft in which a twin has a column with the name of a model."""
    twin = Twin.objects.filter(perturbation="subtle").first()
    assert twin
    seen = [{"description": "Mounted Gemini, 3 um", "measurement_type": "visual", "value": ""}]
    twin.outcome["new_observations"] = seen
    twin.save()
    return study


def test_quarantine_release_can_declare_that_a_source_name_is_a_thing_in_the_laboratory(
    named: Study, client: Client
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    address = reverse("ratings:quarantine", args=[named.slug])
    (one,) = held(named)
    assert one.names == ("gemini",) and "“<bdi>gemini</bdi>” is a thing in the laboratory" in client.get(address).content.decode()  # fmt: skip
    sent = {"item": one.digest, "decision": "released", "name": "gemini", "thing": " an HPLC  column "}
    client.post(address, sent)
    assert Quarantine.objects.get(study=named).things == [["gemini", "an HPLC column"]]
    assert "“<bdi>gemini</bdi>”, <bdi>an HPLC column</bdi>" in client.get(address).content.decode()
    assert study_log_texts.get_event_text(named, "quarantine").endswith(
        "; declared as things in the laboratory: “gemini”, an HPLC column"
    )
    assert quarantine.load_declared_things(named) == {one.digest: {"gemini": "an HPLC column"}}


@pytest.mark.parametrize(
    ("decision", "things", "told"),
    [("dropped", {"gemini": "a column"}, "only if its item is released"),
     ("released", {"claude": "a man"}, "“claude” was not found as a name"),
     ("released", {"gemini": "x" * 201}, "at most 200 characters")],
)  # fmt: skip
def test_quarantine_refuses_invalid_declarations_of_names(
    named: Study, decision: str, things: dict[str, str], told: str
) -> None:
    (one,) = held(named)
    with pytest.raises(quarantine.DecisionError, match=told):
        quarantine.record_decision(named, one, decision, User.objects.create_user("ada"), things)
    assert not Quarantine.objects.exists()


def test_quarantine_ignores_an_empty_declaration(named: Study) -> None:
    (one,) = held(named)
    row = quarantine.record_decision(named, one, "released", User.objects.create_user("ada"), {"gemini": "  "})
    assert row.things == [] and quarantine.load_declared_things(named) == {}
