"""Every sentence that a release before migration 0002 stored as `StudyEvent.detail`, read into data.

This module belongs to the migration and does not change when the application does. Every pattern matches the whole
sentence; one that matches none is kept as text. Sentences were cut at 300 characters: a list that was cut ends with what
was left of its last part.
"""

import re

_NUMBER = r"(\d[\d,]*)"  # some releases wrote 2000, others 2,000
_LABEL = r"([^,;]+)"
_LEFT = rf"(?:{_NUMBER} places? left until another seat is added)"

_ROLES = {"study admin": "admin", "analyst": "analyst"}
_MEMBER = r"(is study admin|is analyst|has no role any more)"
# Greedy: the number is the last one. A user name that looks like one, or like a whole sentence, comes before it.
_NUMBERED = re.compile(rf"(.*) \(account (\d+)\) {_MEMBER}", re.DOTALL)
_NAMED = re.compile(rf"(.*) {_MEMBER}", re.DOTALL)


def read_sentence(kind, detail):
    """Return the data of this sentence, or None if it cannot be read. Not for members: see `read_member`."""
    if kind in _EMPTY:
        return None if detail else {}
    for pattern, read in _READ.get(kind, ()):
        if found := pattern.fullmatch(detail):
            return read(found)
    return None


def read_member(detail, numbers):
    """Return (account, role, granted) of a sentence about a member, or None. `numbers` holds accounts by user name.

    The first release named the account by its user name only. A sentence is read so if there is an account of that name.
    If it can also be read with a number, of another account, one of the two would be a guess: None.
    """
    numbered, named = _NUMBERED.fullmatch(detail), _NAMED.fullmatch(detail)
    by_name = numbers.get(named[1]) if named else None
    by_number = int(numbered[2]) if numbered else None
    if not (by_name or by_number) or (by_name and by_number and by_name != by_number):
        return None
    words = (numbered or named)[3 if numbered else 2]
    role = _ROLES.get(words.removeprefix("is "), "")
    return by_number or by_name, role, bool(role)


def _int(text):
    return int(text.replace(",", "")) if text else 0


def _read_opened(found):
    items, raters, left_out, shown, identical, cases = map(_int, found.groups())
    return {
        "items": items, "raters": raters, "left_out": left_out, "shown": shown, "identical_cases": identical,
        "cases": cases,
    }  # fmt: skip


def _read_sources(found):
    return {"items": _int(found[1]), "sources": found[2].split(", ")}


def _read_quarantine(found):
    decision, digest, reason, things = found.groups()
    return {
        "decision": decision, "digest": digest, "reason": "" if reason == "no reason left" else reason,
        "things": [list(pair) for pair in re.findall(r"“(.+?)”, (.+?)(?:; (?=“)|$)", things or "", re.DOTALL)],
    }  # fmt: skip


def _read_machine_rated(found):
    rater, name, rated, items, failed = found.groups()
    counts = {}
    for part in filter(None, failed.split(", ")):
        number, _, reason = part.partition(" ")
        counts[reason.replace(" ", "_")] = int(number)
    return {"rater": rater, "name": name, "rated": int(rated), "items": int(items), "failed": counts}


def _is_blinded(word):
    return word == "blinded"


def _pattern(text):
    return re.compile(text, re.DOTALL)


_VARIANT = r"(blinded|with sources)"
_EMPTY = ("created", "paused", "resumed", "closed", "unblinded")
_STEPS = {None: "invited", ", to sign in again": "sign_in_again", ", taken back": "revoked"}

# kind -> the forms of its sentences, the one with the most words first
_READ = {
    "edited": [(_pattern(r"(.*)"), lambda m: {"part": m[1]})],
    "duplicated": [(_pattern(r"from (\S+)"), lambda m: {"source": m[1]})],
    "opened": [
        (
            _pattern(
                rf"{_NUMBER} items?, {_NUMBER} raters?"
                rf"(?:; {_NUMBER} items? of unblinded studies left out)?"
                rf"(?:; {_NUMBER} items? of episodes that stand in unblinded studies)?"
                rf"(?:; {_NUMBER} of {_NUMBER} cases? left out, on which both sources gave the identical outcome; what is "
                "compared are cases on which they differ)?"
            ),
            _read_opened,
        )
    ],
    "reopened": [
        (
            _pattern(rf"(?:{_NUMBER} places? dealt(?:; (?=\d)|$))?{_LEFT}?"),
            lambda m: {"dealt": _int(m[1]), "left": _int(m[2])},
        )
    ],
    "guide": [(_pattern(r"version (\d+)"), lambda m: {"version": int(m[1])})],
    "invited": [
        (
            _pattern(rf"{_LABEL}(, to sign in again|, taken back)?"),
            lambda m: {"rater": m[1], "step": _STEPS[m[2]]},
        )
    ],
    "reminded": [(_pattern(rf"{_NUMBER} raters?"), lambda m: {"raters": _int(m[1])})],
    "joined": [(_pattern(_LABEL), lambda m: {"rater": m[1]})],
    "withdrawn": [
        (
            _pattern(rf"{_LABEL}, ratings (dropped|kept); {_NUMBER} places? dealt to others(?:; {_LEFT})?"),
            lambda m: {"rater": m[1], "dropped": m[2] == "dropped", "dealt": _int(m[3]), "left": _int(m[4])},
        )
    ],
    "erased": [(_pattern(_LABEL), lambda m: {"rater": m[1]})],
    "simulated": [
        (_pattern(r"(.+), seed (-?\d+)"), lambda m: {"raters": m[1].split(", "), "seed": int(m[2])}),
    ],
    "replanned": [
        (
            _pattern(rf"(.+) added, with {_NUMBER} items?"),
            lambda m: {"added": m[1].split(", "), "items": _int(m[2])},
        ),
        (_pattern(r"(\d+) free seats became (\d+)"), lambda m: {"free": int(m[1]), "raters": int(m[2])}),
    ],
    "items added": [
        (_pattern(rf"{_NUMBER} items?(?:; {_LEFT})?"), lambda m: {"items": _int(m[1]), "left": _int(m[2])}),
    ],
    "items imported": [
        (_pattern(r"all (\d+) removed"), lambda m: {"removed": int(m[1])}),
        (_pattern(rf"{_NUMBER} items?: (.+)"), _read_sources),
    ],
    "ratings imported": [
        (
            _pattern(rf"{_NUMBER} ratings? by {_NUMBER} raters?"),
            lambda m: {"ratings": _int(m[1]), "raters": _int(m[2])},
        )
    ],
    "quarantine": [
        (
            _pattern(r"(released|dropped) ([0-9a-f]{1,12}): (.+?)(?:; declared things in the laboratory: (“.*))?"),
            _read_quarantine,
        )
    ],
    "audited": [(_pattern(r"blinding (holds|LEAKS)"), lambda m: {"passed": m[1] == "holds"})],
    "looked": [
        (
            _pattern(r"(?:at (\d+) of (\d+) planned ratings|before the first snapshot): (\d+) of (\d+) sources shown"),
            lambda m: dict(zip(("ratings", "planned", "shown", "sources"), map(_int, m.groups()), strict=True)),
        ),
        (
            _pattern(r"interim look: (\d+) of (\d+) sources with (\d+) ratings or more"),
            lambda m: {"shown": int(m[1]), "sources": int(m[2]), "least": int(m[3])},
        ),
    ],
    "exported": [
        (
            _pattern(rf"archive, {_VARIANT}, SHA-256 ([0-9a-f]*)( of SHA256SUMS)?"),
            lambda m: {"blinded": _is_blinded(m[1]), "sha256": m[2], "of": "SHA256SUMS" if m[3] else "zip"},
        ),
        (_pattern(rf"{_VARIANT}, by API token (.*)"), lambda m: {"blinded": _is_blinded(m[1]), "token": m[2]}),
        (
            _pattern(rf"{_VARIANT}(?:\. (Only .+))?"),
            lambda m: {"blinded": _is_blinded(m[1]), "filters_text": m[2] or ""},
        ),
    ],
    "machine": [
        (
            _pattern(rf"{_LABEL}, (.+): (\d+) items to rate, payload (alone|and context)"),
            lambda m: {"rater": m[1], "name": m[2], "items": int(m[3]), "with_context": m[4] == "and context"},
        ),
        (_pattern(rf"{_LABEL}, (.+): (\d+) of (\d+) items rated((?:, \d+ [^,\d]+)*)"), _read_machine_rated),
    ],
    "taken back": [
        (
            _pattern(
                rf"{_NUMBER} items? not dealt to raters who can read them elsewhere"
                rf"(?:; {_NUMBER} cases? of the crossover incomplete)?(?:; {_LEFT})?"
            ),
            lambda m: {"items": _int(m[1]), "incomplete": _int(m[2]), "left": _int(m[3])},
        ),
        (
            _pattern(rf"{_LABEL}, who can read {_NUMBER} items? in another study or in the laboratory: not dealt to them"),
            lambda m: {"rater": m[1], "items": _int(m[2])},
        ),
        (_pattern(_LEFT), lambda m: {"left": _int(m[1])}),
    ],
}  # fmt: skip
