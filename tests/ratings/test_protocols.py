import pytest

from ratings.protocols import ProtocolError, read, slug_of

CASTS, EXPERIMENTS = ("offline", "offline-lapses"), ("caffeine", "zebrafish")
GOOD = {
    "name": "A study",
    "kind": "transition_plausibility",
    "sources": [{"cast": "offline", "perturbation": "subtle", "count": 5}],
    "ratings_per_item": 3,
    "seed": 1,
}


def problems(**changes: object) -> list[str]:
    with pytest.raises(ProtocolError) as caught:
        read({**GOOD, **changes}, CASTS, EXPERIMENTS)
    return caught.value.problems


def test_what_is_left_out_gets_its_default() -> None:
    protocol = read(GOOD, CASTS, EXPERIMENTS)
    assert (protocol.slug, protocol.experiments, protocol.raters, protocol.guide) == ("a-study", (), None, "")
    assert protocol.question.endswith("?")


def test_a_document_written_out_reads_back_the_same() -> None:
    protocol = read({**GOOD, "experiments": ["zebrafish"], "raters": 6}, CASTS, EXPERIMENTS)
    assert read(protocol.to_json(), CASTS, EXPERIMENTS) == protocol


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "  "}, "name: is '  '; it must be text of 1 to 120 characters"),
        ({"slug": "Not A Slug"}, "slug: is 'Not A Slug'; it must be small letters and digits with single hyphens"),
        ({"kind": "taste"}, "kind: is 'taste'; allowed: transition_plausibility, evidence_sufficiency"),
        ({"ratings_per_item": 0}, "ratings_per_item: is 0; it must be a whole number from 1 to 50"),
        ({"ratings_per_item": True}, "ratings_per_item: is True; it must be a whole number from 1 to 50"),
        ({"seed": "7"}, "seed: is '7'; it must be a whole number from 0 to 9007199254740992"),
        ({"raters": 2}, "raters: is 2; 3 ratings per item need at least 3 raters"),
        ({"raters": 0}, "raters: is 0; it must be a whole number from 1 to 200"),
        ({"experiments": ["moon"]}, "experiments: 'moon' is not known; known experiments: caffeine, zebrafish"),
        ({"experiments": []}, 'experiments: is []; it must be "all" or a list of: caffeine, zebrafish'),
        ({"sources": []}, 'sources: must be a list of {"cast", "perturbation", "count"}, at least one'),
        ({"guide": 5}, "guide: is 5; it must be text of at most 5000 characters"),
        ({"question": "a\0b"}, "question: must not contain the character NUL or half a surrogate pair"),
        ({"guide": "a\ud800"}, "guide: must not contain the character NUL or half a surrogate pair"),
        ({"name": "a\0b"}, "name: is 'a\\x00b'; it must not contain NUL or half a surrogate pair"),
        ({"name": "a\udc00"}, "name: is 'a\\udc00'; it must not contain NUL or half a surrogate pair"),
        ({"slug": "new"}, "slug: 'new' is taken by a page of this site; give another one"),
        ({"name": "New"}, "slug: 'new' is taken by a page of this site; give another one"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_is_allowed(changes: dict, said: str) -> None:
    assert problems(**changes) == [said]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"cast": "gpt", "count": 1}, "sources[0].cast: 'gpt' is not known; known casts: offline, offline-lapses"),
        (
            {"cast": ["offline"], "count": 1},
            "sources[0].cast: ['offline'] is not known; known casts: offline, offline-lapses",
        ),
        ({"cast": "offline", "count": -1}, "sources[0].count: is -1; it must be a whole number from 1 to 5000"),
        (
            {"cast": "offline", "count": 1, "perturbation": "odd"},
            "sources[0].perturbation: is 'odd'; allowed: none, obvious, subtle",
        ),
        (
            {"cast": "offline", "count": 1, "color": 1},
            "sources[0].color: unknown field; known: cast, perturbation, count",
        ),
    ],
)
def test_a_wrong_source_is_named_by_its_place(source: dict, said: str) -> None:
    assert problems(sources=[source]) == [said]


def test_evidence_has_no_perturbed_sources() -> None:
    assert problems(kind="evidence_sufficiency") == ["sources[0].perturbation: is 'subtle'; allowed: none"]


def test_the_same_source_twice_is_refused() -> None:
    assert problems(sources=[GOOD["sources"][0]] * 2) == [
        "sources[1].cast: the same cast and perturbation stand there twice"
    ]


def test_all_problems_are_told_at_once() -> None:
    assert len(problems(name="", kind="", seed=None, surprise=1)) == 4


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_what_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(ProtocolError, match="must be a JSON object"):
        read(document, CASTS, EXPERIMENTS)


def test_a_name_without_letters_needs_a_slug() -> None:
    assert problems(name="研究")[0].startswith("slug: the name has no letters")
    assert slug_of("Small  study, No. 2!") == "small-study-no-2"
