"""Names of models, makers, casts and sources are found in texts, and names of things in the laboratory are not."""

import json
import time
from pathlib import Path

import pytest
from django.conf import settings

from ratings.blinding import source_names
from ratings.blinding.source_names import Lexicon
from ratings.studies.pool.source_lexicon import NamesFileError, built, data

HERE = Path(__file__).parent
MODELS = json.loads((settings.FIXTURES_DIR / "models.json").read_text("utf-8"))["models"]
CASTS = json.loads((settings.FIXTURES_DIR / "casts.json").read_text("utf-8"))["casts"]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    models = {
        text for row in MODELS for text in (row["name"], row["provider"], row["model_id"], *row.get("aliases", ()))
    }
    casts = {row["name"] for row in CASTS} | {"offline", "offline-lapses"}
    return built(frozenset(models), frozenset(casts), frozenset({"Kyoto simulator", "team-blue"}))


def _cases(file: str, kind: str) -> list[str]:
    cases: list[str] = json.loads((HERE / file).read_text("utf-8"))[kind]
    return cases


@pytest.mark.parametrize("text", _cases("development.json", "named"))
def test_a_name_is_found(lexicon: Lexicon, text: str) -> None:
    assert lexicon.find(text)


@pytest.mark.parametrize("text", _cases("development.json", "clean"))
def test_a_word_of_the_laboratory_is_not_found(lexicon: Lexicon, text: str) -> None:
    assert not lexicon.find(text)


def test_held_out_recall_is_at_least_nine_in_ten_and_false_alarms_at_most_one_in_twenty(lexicon: Lexicon) -> None:
    # Measured once, when the recogniser was first run: 62 of 64 found, 1 of 67 wrongly.
    named, clean = _cases("held_out.json", "named"), _cases("held_out.json", "clean")
    assert sum(bool(lexicon.find(text)) for text in named) >= 0.9 * len(named)
    assert sum(bool(lexicon.find(text)) for text in clean) <= 0.05 * len(clean)


def test_recall_holds_on_texts_by_somebody_who_had_not_seen_the_recogniser(lexicon: Lexicon) -> None:
    # Measured once, before anything was changed after it: 75 of 80 found. Of the 120 others, more than 60 use on purpose a
    # word that is also such a name ("Claude Martin", "the mistral wind"): 17 were held.
    named, clean = _cases("unseen.json", "named"), _cases("unseen.json", "clean")
    assert sum(bool(lexicon.find(text)) for text in named) >= 0.9 * len(named)
    assert sum(bool(lexicon.find(text)) for text in clean) <= 0.15 * len(clean)


def test_recall_holds_on_texts_that_nobody_who_changed_the_recogniser_has_used(lexicon: Lexicon) -> None:
    # Measured once, after the last change, and nothing was changed after it: 77 of 80 found; of 60 ordinary texts 0 held, of
    # 60 with such a word on purpose in another sense ("Opus stone chip", "Nova Scotia seaweed") 17.
    named, ordinary, look_alike = (_cases("held_out_2.json", kind) for kind in ("named", "ordinary", "look_alike"))
    assert sum(bool(lexicon.find(text)) for text in named) >= 0.9 * len(named)
    assert sum(bool(lexicon.find(text)) for text in ordinary) <= 0.05 * len(ordinary)
    assert sum(bool(lexicon.find(text)) for text in look_alike) <= 0.35 * len(look_alike)


def test_texts_of_a_reviewer_who_had_read_the_recogniser(lexicon: Lexicon) -> None:
    # Before anything was changed after them: 72 of 101 and 52 of 144 found, 37 of 129 held. Now development texts.
    texts = json.loads((HERE / "reviewer.json").read_text("utf-8"))
    first, more = texts["first"], texts["more"]
    assert sum(bool(lexicon.find(text)) for text in first["named"]) >= 85
    assert sum(bool(lexicon.find(text)) for text in more["named"]) >= 128
    assert sum(bool(lexicon.find(text)) for text in first["clean"]) <= 16


@pytest.mark.parametrize("label", ["Biosimulant", "kyotosim", "Hydra"])
@pytest.mark.parametrize("text", ["{} run 7: clear", "value from {}", "{} estimated 4 mL", "by {}"])
def test_a_source_with_a_name_of_its_own_is_found_wherever_it_stands(label: str, text: str) -> None:
    for kinds in ([(), (), (label,)], [(), (label,), ()], [(label,), (), ()]):
        assert built(*map(frozenset, kinds)).find(text.format(label))


@pytest.mark.parametrize(
    "text",
    ["As o3 estimated, 4 mL", "o3: 4 mL", "As Phi calculated, 4 mL", "Clear. Estimated by Google.", "4 mL (Command R)",
     "as Command R predicted", "Reading supplied by Gemini. Column equilibrated", "GPT reports serum albumin",
     "Mistral Large, rotor at 4000 rpm", "generated using o3", "o3-simulated", "prediction of o3", "source: R1",
     "Meta's AI", "4o says", "OAI model", "Qwn3 output", "DS-R1", "Kimmi K2 says 4", "predicted by AI"],
)  # fmt: skip
def test_whoever_tells_something_is_found_with_any_verb_and_preposition(lexicon: Lexicon, text: str) -> None:
    assert lexicon.find(text)


@pytest.mark.parametrize(
    "text",
    ["Gemini NX-C18, 3 um particles", "GPT levels rose to 90 IU/L", "Falcon was centrifuged at 300 g", "GPT/ALT ratio",
     "GPT-1 isoform", "meta outcome", "O3 responded to UV lamp", "solar simulated light", "GLM predicted means",
     "Jean-Claude prepared it", "GPT: 35 U/L", "Algal bloom predicted to recede", "Command: aspirate 200 uL"],
)  # fmt: skip
def test_things_of_the_laboratory_are_not_found(lexicon: Lexicon, text: str) -> None:
    assert not lexicon.find(text)


def test_every_model_of_the_data_file_is_found_by_each_of_its_names(lexicon: Lexicon) -> None:
    names = [text for row in MODELS for text in (row["name"], row["model_id"], *row.get("aliases", ()))]
    assert [name for name in names if not lexicon.find(f"Read by {name.upper()}.")] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Kyoto simulator", "source"), ("KYOTO-SIMULATOR", "source"), ("Team Blue", "source"), ("paper-gpt-4o", "cast"),
     ("Anthropic", "maker"), ("as Gemini predicted", "model"), ("as an AI", "speech")],
)  # fmt: skip
def test_a_finding_says_what_kind_of_name_it_is(lexicon: Lexicon, text: str, kind: str) -> None:
    assert kind in {finding.kind for finding in lexicon.find(text)}


def test_a_source_with_an_ordinary_word_for_a_name_is_found_where_it_predicts(lexicon: Lexicon) -> None:
    water = built(frozenset(), frozenset(), frozenset({"water"}))
    assert not water.find("10 mL of water") and water.find("as water predicted")


def test_each_word_of_the_laboratory_has_a_reason_and_names_a_model_or_maker() -> None:
    written = data()
    known = {source_names._compact(name.text) for name in written.names}
    assert all(lab.reason for lab in written.laboratory)
    others = [lab.word for lab in written.laboratory if source_names._compact(lab.word) not in known]
    assert others == ["GTP", "Jean-Claude", "magnum opus"]  # of "GTP-4"; and phrases that hold a name


def test_a_file_of_names_says_everything_that_is_wrong_with_it(tmp_path: Path, settings: object) -> None:
    wrong = {"makers": "OpenAI", "models": [1], "misspelt": [], "speech": [], "laboratory": [{"word": "Phi"}], "x": 1}
    (tmp_path / "source_names.json").write_text(json.dumps(wrong))
    settings.FIXTURES_DIR = tmp_path  # type: ignore[attr-defined]
    data.cache_clear()
    try:
        with pytest.raises(NamesFileError) as refused:
            data()
    finally:
        data.cache_clear()
    for told in ("source_names.json", "x: unknown key", "makers: 'OpenAI' is not a list", "models: 1 is not a name",
                 "laboratory[0]: a word and a reason", "other_words: None is not a list"):  # fmt: skip
        assert told in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["claude gpt o 3 ", "a", "aB ", "o3 ", "as Gemini really ", "Gemini, a b c, ", "Gemini 1.1.1", "AI ", "source: "],
)
def test_the_time_of_a_hostile_text_grows_with_its_length_alone(lexicon: Lexicon, text: str) -> None:
    started = time.process_time()
    lexicon.find((text * 100_000)[:100_000])
    assert time.process_time() - started < 10
