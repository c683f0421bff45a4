"""Find names of models, makers, casts and sources in a text, in any spelling.

A listed name is found as one word, in parts joined by a space, hyphen, dot or underscore, in any case, with
look-alike letters, digits for letters, or one wrong letter. A word that is also a thing in the laboratory is found only
where `source_grammar` reads it as an agent that states something ("as Phi predicted") and not as the thing.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from ratings.blinding.source_grammar import NameUse, is_agent

MIN_MISSPELT = 6  # letters: with one wrong letter, shorter names become ordinary words
_MIN_TWO_ERRORS = 9  # letters of a name in which two may be wrong
_MIN_SPLIT = 6  # letters of a name that may be split anywhere: "g Pt" is platinum
_MIN_SHORT = 4  # letters of a short name that is searched for misspelt where it states something
_MIN_PART = 4  # letters of a word of a source's name that is searched for by itself
# The caches are bounded, because texts come from outside.
_CACHE_SIZE = 20_000  # texts and words in the cache: the same payload is checked for each study and audit
_TOKEN = re.compile(r"[a-z]+|\d+")
_RUN = re.compile(r"[a-z0-9]+")
_CASES = re.compile(r"(?<=[a-z])(?=[A-Z])")
_JOINT = re.compile(r"[ \-._/‐‑–—]{0,2}\Z")
_MAKES = re.compile(r"(?:['’]s)?[ \-]")
_ADDED = re.compile(r"(?:pro|flash|ultra|nano|lite|large|mini|max|instruct|chat|llm|ai)\Z")
_LOOKALIKES = str.maketrans(
    # Cyrillic, Greek and small capital letters that look like Latin ones; NFKD does not decompose them.
    "авсԁеёһіїјкӏмнорԛѕтухѵԝαβεικνορτυχωɡıɑᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢꜰꜱ",
    "abcdeehiijklmhopqstyxvwabeiknoptuxwgiaabcdeghijklmnoprtuvwyzfs",
)
_DIGITS = [str.maketrans("013457", "oieast"), str.maketrans("013457", "oleast")]  # the digit 1 can be an i or an l


class SourceName(NamedTuple):
    """A name as written, and its kind: "model", "maker", "cast", "source" or "speech"."""

    text: str
    kind: str
    misspelt: bool = False


class LabWord(NamedTuple):
    """A word that names something in a laboratory and may also be the name of a source.

    Without `beside`, every use is allowed in which the word does not state something. `also` are verbs that the thing
    can have too: "GLM predicted means". If the word is not in the list of names, every use is allowed.
    """

    word: str
    reason: str
    beside: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


class NameFinding(NamedTuple):
    """A name that occurs in a text, as the text spells it, and its kind."""

    kind: str
    text: str


class _Token(NamedTuple):
    text: str
    start: int
    end: int


class _Entry(NamedTuple):
    kind: str
    parts: tuple[str, ...]
    manner: str  # "": found everywhere; "allowed": found nowhere; any other value: how `source_grammar` reads the name
    beside: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    tight: bool = False  # parts must be adjacent: "phi-3" and not "phi 3"
    is_word: bool = False  # one correctly spelt word: only such names are searched for misspelt or inside other words


class _Hit(NamedTuple):
    entry: _Entry
    start: int
    end: int


class Lexicon:
    """Names to search for, prepared once; results of `find_names` are cached.

    `ordinary` are words that occur in ordinary texts of the laboratory: a source, cast or model with such a name
    is found only where it states something.
    """

    def __init__(
        self,
        names: Iterable[SourceName],
        laboratory: Iterable[LabWord],
        other_words: Iterable[str],
        ordinary: Collection[str] = frozenset(),
    ) -> None:
        self.laboratory = tuple(laboratory)
        self._lab = {"".join(_split_name(lab.word)): lab for lab in self.laboratory}
        self._other = frozenset(other_words)
        self._ordinary = ordinary
        self._entries: dict[str, _Entry] = {}
        given = list(names)
        for name in given:
            self._add_name(name)
        for name in given:
            if name.kind == "source":
                self._add_name_parts(name)
        for text, lab in self._lab.items():
            self._entries.setdefault(text, _Entry("", _split_name(lab.word), "allowed"))
        # Every beginning of a name, so that the search for a longer name ends as soon as none can follow.
        self._prefixes = {text[:end] for text in self._entries for end in range(1, len(text) + 1)}
        self._longest = max(map(len, self._entries), default=0)  # no name has more parts
        words = [t for t, entry in self._entries.items() if entry.is_word and t.isalpha()]
        long = [t for t in words if len(t) >= MIN_MISSPELT]
        # Ordinary words are not searched for misspelt: their misspellings are ordinary words as well.
        self._misspelt = [t for t in long if self._entries[t].manner in ("", "beside")]
        self._inside = [t for t in long if not self._entries[t].manner]
        self._short = [t for t in words if _MIN_SHORT <= len(t) < MIN_MISSPELT and not self._entries[t].manner]
        # Caches belong to the object, not the class: another list of names must not find old results.
        self._near = lru_cache(_CACHE_SIZE)(self._find_misspelt_name)
        self._found = lru_cache(_CACHE_SIZE)(self._find_uncached)

    def find_names(self, text: str) -> tuple[NameFinding, ...]:
        """Return every name in a text; each spelling is returned once."""
        return self._found(text)

    def _add_name(self, name: SourceName) -> None:
        parts = _split_name(name.text)
        compact = "".join(parts)
        # The first spelling of a name wins; one without any letter would match every number.
        if not any(part.isalpha() for part in parts) or compact in self._entries:
            return
        lab = self._lab.get(compact)
        of_site = name.kind in ("cast", "source", "name")
        first = self._lab.get(parts[0])
        tight = len(parts) == 2 and (len(parts[1]) == 1 or parts[1].isdigit())
        # With one letter or digit as second part, separate words are usually a count: "phi 3".
        tight = tight and (len(parts[0]) < 3 if of_site else first is not None and not first.beside)
        # A single word that ordinary texts of the laboratory contain.
        word = name.text.strip().casefold()
        is_ordinary = len(parts) == 1 and (word in self._ordinary or word.removesuffix("s") in self._ordinary)
        manner = ""
        if lab:
            manner = "beside" if lab.beside else "thing"
        # Two letters are an abbreviation of nearly anything.
        elif len(compact) < 3 or (of_site and is_ordinary):
            manner = "label"
        kind = "model" if name.kind == "name" else name.kind
        beside, also = frozenset(lab.beside if lab else ()), frozenset(lab.also if lab else ())
        is_word = name.text.isalpha() and not name.misspelt
        self._entries[compact] = _Entry(kind, parts, manner, beside, also, tight, is_word)

    def _add_name_parts(self, name: SourceName) -> None:
        """Add the words of a source's name that are not ordinary: "Kyoto" of "Kyoto simulator"."""
        words = _RUN.findall(fold_spelling(name.text).casefold())
        for word in words if len(words) > 1 else ():
            if word.isalpha() and len(word) >= _MIN_PART and word not in self._ordinary:
                # `setdefault`: a listed name keeps its own kind.
                self._entries.setdefault(word, _Entry("source", (word,), "part"))

    def _find_uncached(self, text: str) -> tuple[NameFinding, ...]:
        folded_text = fold_spelling(text)
        lower = folded_text.casefold()
        # As for the tokens: positions must be the same in both texts, or the wrong characters would be read.
        cased = folded_text if len(lower) == len(folded_text) else lower
        hits = self._find_hits(lower, cased, _tokenize(folded_text))
        findings: dict[str, NameFinding] = {}
        for index, hit in enumerate(hits):
            near = (hits[index - 1] if index else None, hits[index + 1] if index + 1 < len(hits) else None)
            if self._reveals_source(lower, cased, hit) or _is_maker_with_model(lower, hit, *near):
                findings.setdefault(lower[hit.start : hit.end], NameFinding(hit.entry.kind, lower[hit.start : hit.end]))
        for match in _RUN.finditer(lower):
            near_name = self._near(match[0])
            if near_name and match[0] not in findings:
                entry = self._entries[near_name[0]]._replace(manner=near_name[1])
                if self._reveals_source(lower, cased, _Hit(entry, match.start(), match.end())):
                    # Each spelling is reported once, where it first states something.
                    findings[match[0]] = NameFinding(entry.kind, match[0])
        return tuple(findings.values())

    def _find_hits(self, low: str, cased: str, tokens: list[_Token]) -> list[_Hit]:
        """Return every name in the text, in order, the longest at each position; none inside an allowed phrase."""
        hits: list[_Hit] = []
        allowed_end = 0
        for index, token in enumerate(tokens):
            # Inside an allowed phrase nothing is a name, so its tokens are skipped.
            if token.start < allowed_end:
                continue
            if hit := self._find_name_at(low, cased, tokens, index):
                if hit.entry.manner == "allowed":
                    allowed_end = hit.end
                else:
                    hits.append(hit)
        return hits

    def _reveals_source(self, low: str, cased: str, hit: _Hit) -> bool:
        entry, place = hit.entry, (low, cased, hit.start, hit.end)
        return not entry.manner or is_agent(NameUse(entry.manner, entry.kind, *place, entry.beside, entry.also))

    def _find_name_at(self, low: str, cased: str, tokens: list[_Token], at: int) -> _Hit | None:
        """Return the longest name that begins with this token."""
        joined, best = "", None
        gaps: list[int] = []
        # No name has more parts, so the search is linear in the text.
        for token in tokens[at : at + self._longest]:
            if joined:
                gap = low[tokens[at + len(gaps)].end : token.start]
                if not _JOINT.match(gap):
                    break
                gaps.append(len(gap))
            joined += token.text
            if joined not in self._prefixes:
                break
            entry = self._entries.get(joined)
            if entry and _is_valid_split(joined, entry, tokens[at : at + len(gaps) + 1], low, cased, gaps):
                best = _Hit(entry, tokens[at].start, token.end)
        return best or self._find_plural_at(low, tokens[at])

    def _find_plural_at(self, low: str, token: _Token) -> _Hit | None:
        """Return the name of which this token is the plural, or None. It counts only where it states something."""
        # A plural that is an ordinary word by itself is not the plural of a name.
        if not (token.text.endswith("s") and len(token.text) > _MIN_SHORT - 1) or token.text in self._other:
            return None
        entry = self._entries.get(token.text[:-1])
        if entry is None or entry.manner == "allowed" or not entry.is_word:
            return None
        if low[token.end : token.end + 1].isalnum() or (token.start and low[token.start - 1].isalnum()):
            return None
        # "As GPTs predicted", and not "the Falcons were inverted".
        return _Hit(entry._replace(manner="label"), token.start, token.end)

    def _find_misspelt_name(self, word: str) -> tuple[str, str] | None:
        """Return the name that this word misspells or contains, and how the name is read; None if there is none."""
        if word in self._other or word in self._entries or word.isdigit():
            return None
        if found := self._match_long_name(word):
            return found, self._entries[found].manner
        letters = word.rstrip("0123456789")
        if len(letters) < (3 if letters != word else _MIN_SHORT + 1) or not letters.isalpha() or letters in self._other:
            return None
        # The same first letter is required, which excludes most ordinary words before the distance is computed.
        short = next((name for name in self._short if letters[0] == name[0] and _is_misspelt(letters, name)), None)
        return (short, "part") if short else None

    def _match_long_name(self, word: str) -> str | None:
        if len(word) < MIN_MISSPELT - 1:
            return None
        # Names are built with this ending; the part before it can be anything.
        if word.endswith("gpt"):
            return "gpt" if "gpt" in self._entries else None
        if not word.isalpha():
            return self._match_with_digits(word)
        for name in self._misspelt:
            if _is_misspelt(word, name) or (word.startswith(name) and _ADDED.match(word, len(name))):
                return name
        return next((name for name in self._inside if name in word), None)

    def _match_with_digits(self, word: str) -> str | None:
        if sum(sign.isalpha() for sign in word) < 3:
            return None
        for table in _DIGITS:
            entry = self._entries.get(decoded := word.translate(table))
            if entry and entry.is_word and entry.manner in ("", "beside"):
                return decoded
        return None


def fold_spelling(text: str) -> str:
    """Return the text without accents and invisible characters, and with look-alike letters replaced; case is kept."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(  # Cf: invisible characters; Mn: accents, separate after NFKD
            sign for sign in decomposed if unicodedata.category(sign) not in ("Cf", "Mn") and sign != "\ufffd"
        )
        text = "".join(_replace_lookalike(sign) for sign in text)
    return text


def _replace_lookalike(sign: str) -> str:
    if sign.isascii():
        return sign
    low = sign.lower()
    same = low.translate(_LOOKALIKES)
    return same.upper() if same != low and sign != low else same


def _tokenize(plain: str) -> list[_Token]:
    """Return runs of letters and of digits; letters are split where the case changes ("Deep", "Seek")."""
    low = plain.casefold()
    # Some letters change their length in casefold; then the small letters serve for both, so that positions agree.
    if len(low) != len(plain):
        plain = low
    cuts = [match.start() for match in _CASES.finditer(plain)]
    tokens = []
    for match in _TOKEN.finditer(low):
        start = match.start()
        for cut in cuts[bisect_right(cuts, start) : bisect_left(cuts, match.end())]:
            tokens.append(_Token(low[start:cut], start, cut))
            start = cut
        tokens.append(_Token(low[start : match.end()], start, match.end()))
    return tokens


def _split_name(text: str) -> tuple[str, ...]:
    return tuple(token.text for token in _tokenize(fold_spelling(text)))


def _is_maker_with_model(low: str, hit: _Hit, before: _Hit | None, after: _Hit | None) -> bool:
    """Return whether a maker directly precedes its model, such as "Amazon Titan", which denotes no thing."""
    if hit.entry.kind == "maker" and after is not None and after.entry.kind == "model":
        return bool(_MAKES.fullmatch(low, hit.end, after.start))
    if hit.entry.kind == "model" and before is not None and before.entry.kind == "maker":
        return bool(_MAKES.fullmatch(low, before.end, hit.start))
    return False


def _is_valid_split(joined: str, entry: _Entry, tokens: list[_Token], low: str, cased: str, gaps: list[int]) -> bool:
    """Return whether a name may be split into these tokens, and begins and ends at the boundary of a word."""
    start, end = tokens[0].start, tokens[-1].end
    if (start and low[start - 1].isalpha() and low[start].isalpha()) or (
        end < len(low) and low[end].isalpha() and low[end - 1].isalpha()
    ):
        return False
    if entry.tight and any(" " in low[one.end : other.start] for one, other in pairwise(tokens)):
        # Two parts written as one name, such as "Command R"; "Command A" may be the first of two commands.
        first, last = cased[start], cased[tokens[-1].start]
        return len(tokens) == 2 and first.isupper() and last.isupper() and last not in "AI"
    if not any(gaps) or len(joined) >= _MIN_SPLIT or tuple(token.text for token in tokens) == entry.parts:
        return True
    return all(len(token.text) == 1 for token in tokens)


def _is_misspelt(word: str, name: str) -> bool:
    allowed = 2 if len(name) >= _MIN_TWO_ERRORS else 1
    # Cheap exclusions first: the distance takes time proportional to the product of the lengths.
    if abs(len(word) - len(name)) > allowed or (word[0] != name[0] and sorted(word[:2]) != sorted(name[:2])):
        return False
    # A plural or a past tense is no misspelling.
    return _edit_distance(word, name) <= allowed and word not in (name + "s", name + "ed")


def _edit_distance(one: str, other: str) -> int:
    """Return the smallest number of insertions, deletions, changes and swaps of neighbours (Damerau-Levenshtein)."""
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


class NameFile(NamedTuple):
    """The content of a data file of names."""

    names: list[SourceName]
    laboratory: list[LabWord]
    other_words: list[str]
    ordinary_words: list[str]


def parse_name_file(data: Mapping[str, object]) -> NameFile:
    """Return the content of a data file. Raises ValueError, which lists every problem in it."""
    kinds = {"makers": "maker", "models": "model", "misspelt": "model", "speech": "speech"}
    keys = [*kinds, "laboratory", "other_words", "ordinary_words"]
    # All problems at once, so that the editor of the file need not correct them one at a time.
    problems = [f"{key}: unknown key; allowed: {', '.join(keys)}" for key in data if key not in keys]
    names: list[SourceName] = []
    for key, kind in kinds.items():
        names += [SourceName(text, kind, key == "misspelt") for text in _get_texts(data, key, problems)]
    laboratory = []
    for index, row in enumerate(_get_list(data, "laboratory", problems)):
        if lab := _parse_lab_word(row, f"laboratory[{index}]", problems):
            laboratory.append(lab)
    other_words, ordinary_words = (_get_texts(data, key, problems) for key in ("other_words", "ordinary_words"))
    if problems:
        raise ValueError("\n".join(problems))
    return NameFile(names, laboratory, other_words, ordinary_words)


def _parse_lab_word(row: object, place: str, problems: list[str]) -> LabWord | None:
    values = row if isinstance(row, dict) else {}
    word, reason = values.get("word"), values.get("reason")
    if not (isinstance(word, str) and word and isinstance(reason, str) and reason):
        problems.append(f"{place}: a word and a reason are needed")
        return None
    lists = {key: values.get(key, []) for key in ("beside", "also")}
    invalid = [k for k, v in lists.items() if not (isinstance(v, list) and all(isinstance(one, str) for one in v))]
    problems += [f"{place}.{key}: {lists[key]!r} is not a list of words" for key in invalid]
    return None if invalid else LabWord(word, reason, tuple(lists["beside"]), tuple(lists["also"]))


def _get_list(data: Mapping[str, object], key: str, problems: list[str]) -> list[object]:
    value = data.get(key)
    if isinstance(value, list):
        return value
    problems.append(f"{key}: {value!r} is not a list")
    return []


def _get_texts(data: Mapping[str, object], key: str, problems: list[str]) -> list[str]:
    values = _get_list(data, key, problems)
    problems += [f"{key}: {value!r} is not a name" for value in values if not (isinstance(value, str) and value)]
    return [value for value in values if isinstance(value, str)]
