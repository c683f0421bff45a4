"""Tests of recognising names of models, makers, casts and sources in texts, without false alarms on laboratory terms."""

import json
import time
from pathlib import Path

import pytest
from django.conf import settings

from ratings.blinding import source_names
from ratings.blinding.source_names import Lexicon
from ratings.studies.quarantine import NamesFileError, compile_lexicon, load_names_file

HERE = Path(__file__).parent
MODELS = json.loads((settings.FIXTURES_DIR / "models.json").read_text("utf-8"))["models"]
CASTS = json.loads((settings.FIXTURES_DIR / "casts.json").read_text("utf-8"))["casts"]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    models = {
        text for row in MODELS for text in (row["name"], row["provider"], row["model_id"], *row.get("aliases", ()))
    }
    casts = {row["name"] for row in CASTS} | {"offline", "offline-lapses"}
    return compile_lexicon(frozenset(models), frozenset(casts), frozenset({"Kyoto simulator", "team-blue"}))


def load_cases(file: str, kind: str) -> list[str]:
    cases: list[str] = json.loads((HERE / file).read_text("utf-8"))[kind]
    return cases


@pytest.mark.parametrize("text", load_cases("development.json", "named"))
def test_source_name_is_recognised(lexicon: Lexicon, text: str) -> None:
    assert lexicon.find_names(text)


@pytest.mark.parametrize("text", load_cases("development.json", "clean"))
def test_laboratory_word_is_not_recognised_as_a_source_name(lexicon: Lexicon, text: str) -> None:
    assert not lexicon.find_names(text)


def test_source_name_recall_on_held_out_texts_is_90_percent_with_at_most_5_percent_false_alarms(
    lexicon: Lexicon,
) -> None:
    # Measured once, when the recogniser was first run: 62 of 64 recognised, 1 of 67 false alarms.
    named, clean = load_cases("held_out.json", "named"), load_cases("held_out.json", "clean")
    assert sum(bool(lexicon.find_names(text)) for text in named) >= 0.9 * len(named)
    assert sum(bool(lexicon.find_names(text)) for text in clean) <= 0.05 * len(clean)


def test_source_name_recall_on_texts_by_an_author_who_had_not_seen_the_recogniser(lexicon: Lexicon) -> None:
    # Measured once, before any change in response to it: 75 of 80 recognised. Of the 120 others, more than 60 deliberately use a
    # word that is also such a name ("Claude Martin", "the mistral wind"): 17 were held.
    named, clean = load_cases("unseen.json", "named"), load_cases("unseen.json", "clean")
    assert sum(bool(lexicon.find_names(text)) for text in named) >= 0.9 * len(named)
    assert sum(bool(lexicon.find_names(text)) for text in clean) <= 0.15 * len(clean)


def test_source_name_recall_on_texts_not_used_for_development(lexicon: Lexicon) -> None:
    # Measured once, after the last change: 77 of 80 recognised. Of 60 ordinary texts 0 were held, of
    # 60 that deliberately use such a word in another sense ("Opus stone chip", "Nova Scotia seaweed") 17.
    named, ordinary, look_alike = (load_cases("held_out_2.json", kind) for kind in ("named", "ordinary", "look_alike"))
    assert sum(bool(lexicon.find_names(text)) for text in named) >= 0.9 * len(named)
    assert sum(bool(lexicon.find_names(text)) for text in ordinary) <= 0.05 * len(ordinary)
    assert sum(bool(lexicon.find_names(text)) for text in look_alike) <= 0.35 * len(look_alike)


def test_source_name_recall_on_texts_by_a_reviewer_who_had_read_the_recogniser(lexicon: Lexicon) -> None:
    # Before any change in response to them: 72 of 101 and 52 of 144 recognised, 37 of 129 held. Now development texts.
    texts = json.loads((HERE / "reviewer.json").read_text("utf-8"))
    first, more = texts["first"], texts["more"]
    assert sum(bool(lexicon.find_names(text)) for text in first["named"]) >= 85
    assert sum(bool(lexicon.find_names(text)) for text in more["named"]) >= 128
    assert sum(bool(lexicon.find_names(text)) for text in first["clean"]) <= 16


@pytest.mark.parametrize("label", ["Biosimulant", "kyotosim", "Hydra"])
@pytest.mark.parametrize("text", ["{} run 7: clear", "value from {}", "{} estimated 4 mL", "by {}"])
def test_source_with_a_distinctive_name_is_recognised_anywhere_in_a_text(label: str, text: str) -> None:
    for kinds in ([(), (), (label,)], [(), (label,), ()], [(label,), (), ()]):
        assert compile_lexicon(*map(frozenset, kinds)).find_names(text.format(label))


@pytest.mark.parametrize(
    "text",
    ["As o3 estimated, 4 mL", "o3: 4 mL", "As Phi calculated, 4 mL", "Clear. Estimated by Google.", "4 mL (Command R)",
     "as Command R predicted", "Reading supplied by Gemini. Column equilibrated", "GPT reports serum albumin",
     "Mistral Large, rotor at 4000 rpm", "generated using o3", "o3-simulated", "prediction of o3", "source: R1",
     "Meta's AI", "4o says", "OAI model", "Qwn3 output", "DS-R1", "Kimmi K2 says 4", "predicted by AI"],
)  # fmt: skip
def test_source_name_is_recognised_with_any_verb_or_preposition(lexicon: Lexicon, text: str) -> None:
    assert lexicon.find_names(text)


@pytest.mark.parametrize(
    "text",
    ["Gemini NX-C18, 3 um particles", "GPT levels rose to 90 IU/L", "Falcon was centrifuged at 300 g", "GPT/ALT ratio",
     "GPT-1 isoform", "meta outcome", "O3 responded to UV lamp", "solar simulated light", "GLM predicted means",
     "Jean-Claude prepared it", "GPT: 35 U/L", "Algal bloom predicted to recede", "Command: aspirate 200 uL"],
)  # fmt: skip
def test_laboratory_phrase_is_not_recognised_as_a_source_name(lexicon: Lexicon, text: str) -> None:
    assert not lexicon.find_names(text)


def test_every_model_of_the_data_file_is_recognised_by_each_of_its_names(lexicon: Lexicon) -> None:
    names = [text for row in MODELS for text in (row["name"], row["model_id"], *row.get("aliases", ()))]
    # Some are also words of the laboratory, such as o1, and are names only where they predict something.
    ordinary = {entry.word for entry in load_names_file().laboratory}
    texts = {
        name: f"As {name.upper()} predicted." if name in ordinary else f"Read by {name.upper()}." for name in names
    }
    assert [name for name, text in texts.items() if not lexicon.find_names(text)] == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Kyoto simulator", "source"), ("KYOTO-SIMULATOR", "source"), ("Team Blue", "source"), ("paper-gpt-4o", "cast"),
     ("Anthropic", "maker"), ("as Gemini predicted", "model"), ("as an AI", "speech")],
)  # fmt: skip
def test_source_name_is_reported_with_its_kind(lexicon: Lexicon, text: str, kind: str) -> None:
    assert kind in {finding.kind for finding in lexicon.find_names(text)}


def test_source_named_like_an_ordinary_word_is_recognised_only_where_it_predicts_something(lexicon: Lexicon) -> None:
    water = compile_lexicon(frozenset(), frozenset(), frozenset({"water"}))
    assert not water.find_names("10 mL of water") and water.find_names("as water predicted")


def test_every_listed_laboratory_word_has_a_reason_and_resembles_a_model_or_its_maker() -> None:
    written = load_names_file()
    known = {"".join(source_names._split_name(name.text)) for name in written.names}
    assert all(lab.reason for lab in written.laboratory)
    others = [lab.word for lab in written.laboratory if "".join(source_names._split_name(lab.word)) not in known]
    assert others == ["GTP", "Jean-Claude", "magnum opus"]  # of "GTP-4"; and phrases that contain a name


def test_source_name_file_reports_all_its_errors_together(tmp_path: Path, settings: object) -> None:
    wrong = {"makers": "OpenAI", "models": [1], "misspelt": [], "speech": [], "laboratory": [{"word": "Phi"}], "x": 1}
    (tmp_path / "source_names.json").write_text(json.dumps(wrong))
    settings.FIXTURES_DIR = tmp_path  # type: ignore[attr-defined]
    load_names_file.cache_clear()
    try:
        with pytest.raises(NamesFileError) as refused:
            load_names_file()
    finally:
        load_names_file.cache_clear()
    for told in ("source_names.json", "x: unknown key", "makers: 'OpenAI' is not a list", "models: 1 is not a name",
                 "laboratory[0]: a word and a reason", "other_words: None is not a list"):  # fmt: skip
        assert told in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["claude gpt o 3 ", "a", "aB ", "o3 ", "as Gemini really ", "Gemini, a b c, ", "Gemini 1.1.1", "AI ", "source: "],
)
def test_source_name_search_takes_linear_time_on_hostile_text(lexicon: Lexicon, text: str) -> None:
    started = time.process_time()
    lexicon.find_names((text * 100_000)[:100_000])
    assert time.process_time() - started < 10
