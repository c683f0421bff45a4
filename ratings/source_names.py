"""Find names of models, makers, casts and sources in a text, however they are spelt. No Django, no rows.

A name of the list is found as one word, in parts joined by a space, hyphen, dot or underscore, in any case, with
look-alike letters, digits for letters, or one letter wrong. A word that is also a thing in the laboratory is found only
where it does not stand beside the laboratory's words, or only as the subject of a prediction ("as Phi predicted").
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

LEAST_MISSPELT = 6  # letters: at one wrong letter, shorter names become ordinary words
_TWO_WRONG = 9  # letters of a name in which two may be wrong
_LEAST_JOINED = 6  # letters of a name that may be split anywhere: "g Pt" is platinum
_NEAR = 3  # words on either side in which a laboratory word makes a name a thing of the laboratory
_TOKEN = re.compile(r"[a-z]+|\d+")
_RUN = re.compile(r"[a-z0-9]+")
_CASES = re.compile(r"(?<=[a-z])(?=[A-Z])")
_JOINT = re.compile(r"[ \-._/‐‑–—]{0,2}\Z")
_SIZE = re.compile(r"(?:[ \-]\d(?:\.\d)?)?[ \-]?\d{1,4}(?:\.\d)?b\b")
_VERSION = re.compile(r"-[345](?:\.\d)?(?:o\b|\b)")  # joined by a hyphen: "GPT-4", and not "GPT 4 U/L"
_VERB = (
    r"predict(?:s|ed|ion|ions)?|says|said|think(?:s|ing)?|thought|guess(?:es|ed)?|believe[sd]?|reckon(?:s|ed)?"
    r"|simulate[sd]|simulation|hallucinate[sd]?|answer(?:s|ed)?|claim(?:s|ed)|writes|wrote|reasoned|imagine[sd]?"
    r"|suggest(?:s|ed)|expects|conclude[sd]|reply|replied|responds|responded|respons(?:e|es)|outcomes?"
)
_AFTER = re.compile(rf"(?:[ \-]?v?\d+(?:\.\d+)*)?(?:['’]s)?,? (?:had |has |would |might |model )?(?:{_VERB})\b")
_BEFORE = re.compile(
    r"(?:\baccording to|\bas told by|\b(?:predicted|simulated|answered|guessed|hallucinated|imagined|generated|written|drafted"
    r"|authored|composed) (?:by|with)|\b(?:asked|prompted|ask|prompt)|\b(?:language |ai )?model ?[:=])(?: the)? ?$"
)
_MODEL = re.compile(r"[ \-]v?\d+(?:\.\d+)* (?:output|reply|model)\b|['’]s (?:language |ai )?model\b")
_OUTPUT = re.compile(r" (?:output|reply)\b")
_LOOKALIKES = str.maketrans(
    "авсԁеёһіїјкӏмнорԛѕтухѵԝαβεικνορτυχωɡıɑᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢꜰꜱ",
    "abcdeehiijklmhopqstyxvwabeiknoptuxwgiaabcdeghijklmnoprtuvwyzfs",
)
_DIGITS = [str.maketrans("013457", "oieast"), str.maketrans("013457", "oleast")]


class Name(NamedTuple):
    """A name as it is written, and what it names: "model", "maker", "cast", "source" or "speech"."""

    text: str
    kind: str
    misspelt: bool = False


class Lab(NamedTuple):
    """A laboratory's own use of a word. Without `beside` any use but as a subject of a prediction is allowed."""

    word: str
    reason: str
    beside: tuple[str, ...] = ()


class Finding(NamedTuple):
    """A name that a text gives, as the text spells it, and what kind of name it is."""

    kind: str
    text: str


class _Token(NamedTuple):
    text: str
    start: int
    end: int


class _Entry(NamedTuple):
    kind: str
    parts: tuple[str, ...]
    weak: bool  # an ordinary word, or one of the laboratory's: needs a context
    beside: frozenset[str]
    tight: bool  # parts must not be apart: "phi-3" and not "phi 3"
    is_word: bool  # written as one word and well: only such names are looked for misspelt or inside other words


class Lexicon:
    """Names to look for, prepared once; `find` remembers what it was asked."""

    def __init__(self, names: Iterable[Name], laboratory: Iterable[Lab], other_words: Iterable[str]) -> None:
        self.laboratory = tuple(laboratory)
        self._lab = {_compact(lab.word): lab for lab in self.laboratory}
        self._other = frozenset(other_words)
        self._entries: dict[str, _Entry] = {}
        for name in names:
            self._add(name)
        self._prefixes = {text[:end] for text in self._entries for end in range(1, len(text) + 1)}
        words = [t for t, entry in self._entries.items() if entry.is_word and len(t) >= LEAST_MISSPELT and t.isalpha()]
        self._misspelt = [t for t in words if not self._entries[t].weak or self._entries[t].beside]
        self._inside = [t for t in words if not self._entries[t].weak]
        self._near = cache(self._nearest)
        self._found = cache(self._find)

    def find(self, text: str) -> tuple[Finding, ...]:
        """Return every name in a text, each spelling once."""
        return self._found(text)

    def _add(self, name: Name) -> None:
        parts = tuple(token.text for token in _tokens(folded(name.text)))
        compact = "".join(parts)
        if not any(part.isalpha() for part in parts) or compact in self._entries:
            return
        lab = self._lab.get(compact)
        plain = len(parts) == 1 and name.kind in ("cast", "source", "name")
        first = self._lab.get(parts[0])
        tight = (
            len(parts) == 2 and (len(parts[1]) == 1 or parts[1].isdigit()) and first is not None and not first.beside
        )
        weak = lab is not None or plain or len(compact) < 3
        beside = frozenset(lab.beside) if lab else frozenset()
        kind = "model" if name.kind == "name" else name.kind
        self._entries[compact] = _Entry(kind, parts, weak, beside, tight, name.text.isalpha() and not name.misspelt)

    def _find(self, text: str) -> tuple[Finding, ...]:
        plain = folded(text)
        tokens = _tokens(plain)
        low = plain.casefold()
        found: dict[str, Finding] = {}
        for at in range(len(tokens)):
            if hit := self._name_at(low, tokens, at):
                entry, start, end = hit
                if self._is_told(low, entry, start, end):
                    found.setdefault(low[start:end], Finding(entry.kind, low[start:end]))
        for match in _RUN.finditer(low):
            near = self._near(match[0])
            if near and match[0] not in found and self._is_told(low, self._entries[near], match.start(), match.end()):
                found[match[0]] = Finding(self._entries[near].kind, match[0])
        return tuple(found.values())

    def _name_at(self, low: str, tokens: list[_Token], at: int) -> tuple[_Entry, int, int] | None:
        """Return the longest name that begins with this token. A weak one gives way to a longer one that is not."""
        joined, best = "", None
        gaps: list[int] = []
        for token in tokens[at:]:
            if joined:
                gap = low[tokens[at + len(gaps)].end : token.start]
                if not _JOINT.match(gap):
                    break
                gaps.append(len(gap))
            joined += token.text
            if joined not in self._prefixes:
                break
            entry = self._entries.get(joined)
            if entry and _may_be_split(joined, entry, tokens[at : at + len(gaps) + 1], low, gaps):
                best = entry, tokens[at].start, token.end
        return best

    def _is_told(self, low: str, entry: _Entry, start: int, end: int) -> bool:
        if not entry.weak:
            return True
        before, after = low[max(0, start - 40) : start], low[end : end + 60]
        if _AFTER.match(after) or _SIZE.match(after) or _BEFORE.search(before) or _MODEL.match(after):
            return True
        if not entry.beside:
            return False
        if _VERSION.match(after) or _OUTPUT.match(after):
            return True
        around = [*re.findall(r"[\w/-]+", before)[-_NEAR:], *re.findall(r"[\w/-]+", after)[:_NEAR]]
        return not any(word in entry.beside for word in around)

    def _nearest(self, word: str) -> str | None:
        """Return the name that one word misspells or holds; None for ordinary words."""
        if word in self._other or word in self._entries or len(word) < LEAST_MISSPELT - 1 or word.isdigit():
            return None
        if word.endswith("gpt"):
            return "gpt" if "gpt" in self._entries else None
        if not word.isalpha():
            return self._with_digits(word)
        for name in self._misspelt:
            if _is_misspelt(word, name):
                return name
        return next((name for name in self._inside if name in word), None)

    def _with_digits(self, word: str) -> str | None:
        if sum(sign.isalpha() for sign in word) < 3:
            return None
        for table in _DIGITS:
            entry = self._entries.get(spelt := word.translate(table))
            if entry and entry.is_word and (entry.beside or not entry.weak):
                return spelt
        return None


def folded(text: str) -> str:
    """Return the text with one spelling of each letter and no invisible signs; words of mixed case are kept apart."""
    if not text.isascii():
        spelt = unicodedata.normalize("NFKD", text)
        text = "".join(sign for sign in spelt if unicodedata.category(sign) not in ("Cf", "Mn") and sign != "\ufffd")
        text = "".join(_lookalike(sign) for sign in text)
    return text


def _lookalike(sign: str) -> str:
    if sign.isascii():
        return sign
    low = sign.lower()
    same = low.translate(_LOOKALIKES)
    return same.upper() if same != low and sign != low else same


def _tokens(plain: str) -> list[_Token]:
    """Runs of letters and of digits; letters split where the case changes, so that "DeepSeek" is two."""
    low = plain.casefold()
    if len(low) != len(plain):
        plain = low
    cuts = {match.start() for match in _CASES.finditer(plain)}
    tokens = []
    for match in _TOKEN.finditer(low):
        start = match.start()
        for cut in sorted(cut for cut in cuts if match.start() < cut < match.end()):
            tokens.append(_Token(low[start:cut], start, cut))
            start = cut
        tokens.append(_Token(low[start : match.end()], start, match.end()))
    return tokens


def _compact(text: str) -> str:
    return "".join(token.text for token in _tokens(folded(text)))


def _may_be_split(joined: str, entry: _Entry, tokens: list[_Token], low: str, gaps: list[int]) -> bool:
    """Whether the parts of a name may stand apart as they do, and it begins and ends with a word of the text."""
    start, end = tokens[0].start, tokens[-1].end
    if (start and low[start - 1].isalpha() and low[start].isalpha()) or (
        end < len(low) and low[end].isalpha() and low[end - 1].isalpha()
    ):
        return False
    if entry.tight and any(" " in low[one.end : other.start] for one, other in pairwise(tokens)):
        return False
    if not any(gaps) or len(joined) >= _LEAST_JOINED or tuple(token.text for token in tokens) == entry.parts:
        return True
    return all(len(token.text) == 1 for token in tokens)


def _is_misspelt(word: str, name: str) -> bool:
    allowed = 2 if len(name) >= _TWO_WRONG else 1
    if abs(len(word) - len(name)) > allowed or (word[0] != name[0] and sorted(word[:2]) != sorted(name[:2])):
        return False
    return _distance(word, name) <= allowed and word not in (name + "s", name + "ed")


def _distance(one: str, other: str) -> int:
    """Return the number of letters put in, left out, changed or exchanged with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        last, row = row, [i]
        for j, b in enumerate(other, start=1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before = last
    return row[-1]


def read(data: Mapping[str, object]) -> tuple[list[Name], list[Lab], list[str]]:
    """Return the names, the laboratory's words and other words of a data file; ValueError names what is wrong in it."""
    kinds = {"makers": "maker", "models": "model", "misspelt": "model", "speech": "speech"}
    problems = [
        f"{key}: unknown key; allowed: {', '.join([*kinds, *_MORE])}" for key in data if key not in {*kinds, *_MORE}
    ]
    names: list[Name] = []
    for key, kind in kinds.items():
        names += [Name(text, kind, key == "misspelt") for text in _texts(data, key, problems)]
    laboratory = []
    for at, row in enumerate(_list(data, "laboratory", problems)):
        word, reason, beside = (
            (row.get(key) for key in ("word", "reason", "beside")) if isinstance(row, dict) else (None,) * 3
        )
        if not (isinstance(word, str) and word and isinstance(reason, str) and reason):
            problems.append(f"laboratory[{at}]: a word and a reason are needed")
        elif beside is not None and not (isinstance(beside, list) and all(isinstance(one, str) for one in beside)):
            problems.append(f"laboratory[{at}].beside: {beside!r} is not a list of words")
        else:
            laboratory.append(Lab(word, reason, tuple(beside or ())))
    other = _texts(data, "other_words", problems)
    if problems:
        raise ValueError("\n".join(problems))
    return names, laboratory, other


_MORE = ("laboratory", "other_words")


def _list(data: Mapping[str, object], key: str, problems: list[str]) -> list[object]:
    value = data.get(key)
    if isinstance(value, list):
        return value
    problems.append(f"{key}: {value!r} is not a list")
    return []


def _texts(data: Mapping[str, object], key: str, problems: list[str]) -> list[str]:
    values = _list(data, key, problems)
    problems += [f"{key}: {value!r} is not a name" for value in values if not (isinstance(value, str) and value)]
    return [value for value in values if isinstance(value, str)]
