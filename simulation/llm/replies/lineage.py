"""Which input is meant: aliases and barcodes in a reply, and which material continues which."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulation.lab.materials import UNLIMITED, Draft, Material
from simulation.llm.replies import codes
from simulation.llm.replies.cleaning import plain, quoted
from simulation.llm.replies.fields import LONGEST_NAME, MOST_MATERIALS
from simulation.llm.replies.remarks import Remarks

MOST_OF_A_NAME = 60  # characters of a name that stand for a code: whole ones would let a text grow with every step
_ALIAS = re.compile(r"[Ss]([1-9]\d{0,2})")


def alias(place: int) -> str:
    """S1 is the first material of the action."""
    return f"S{place + 1}"


@dataclass(frozen=True)
class Inputs:
    """The materials of an action in its order; `given` are the codes that stand in texts of theirs or of the action."""

    materials: tuple[Material, ...]
    given: frozenset[str] = frozenset()

    @classmethod
    def of(cls, materials: Sequence[Material], given: str = "") -> "Inputs":
        return cls(tuple(materials)).also(given)

    def also(self, given: str) -> "Inputs":
        """The same where these texts stand too: a tube may well be labelled S1. No input's barcode is such a label."""
        ours = {material.barcode for material in self.materials}
        return replace(self, given=self.given | frozenset(codes.codes(given)) - ours)

    def find(self, written: str) -> Material | None:
        """The input that an alias, a barcode or a name that only one input bears stands for."""
        bare = written.strip().strip("[]()\"'").strip()
        if (found := _ALIAS.fullmatch(bare)) and int(found[1]) <= len(self.materials):
            return self.materials[int(found[1]) - 1]
        code = codes.barcode(found) if (found := codes.BARCODE.fullmatch(bare)) else bare
        return next((m for m in self.materials if m.barcode == code), None) or self.named(written)

    def named(self, name: str) -> Material | None:
        """The input of that name, if only one bears it. What is no name for its length alone is not compared."""
        if len(name) > LONGEST_NAME:
            return None
        meant = plain(name)
        same = [m for m in self.materials if plain(m.name) == meant]
        return same[0] if len(same) == 1 else None

    def label(self, text: str) -> str:
        """A name or property: barcodes of inputs become names, those that are nobody's are dropped."""
        return codes.BARCODE.sub(self._barcode, codes.BRACKETED.sub(self._bracketed, text)).strip()

    def named_within(self, text: str) -> str:
        """A name or property: the same, and aliases where they stand for the input and are no part of a name."""
        return codes.ALIAS.sub(
            lambda f: self._alias(f) if codes.stands_for_a_thing(f) else f[0], self.label(text)
        ).strip()

    def told(self, text: str) -> str:
        """An observation: the same, and aliases become names wherever they stand."""
        return self.reason(self.label(text))

    def reason(self, text: str) -> str:
        """A reason of rejection: aliases become names; barcodes stay, for the experimenter knows them."""
        return codes.ALIAS.sub(self._alias, text).strip()

    def _barcode(self, found: re.Match[str]) -> str:
        code = codes.barcode(found)
        if code in self.given:
            return found[0]
        ours = next((material for material in self.materials if material.barcode == code), None)
        if ours is not None:
            return ours.name[:MOST_OF_A_NAME]
        return "" if codes.stands_alone(found) else found[0]

    def _alias(self, found: re.Match[str]) -> str:
        if found[0] in self.given or int(found[1]) > len(self.materials):
            return found[0]
        return self.materials[int(found[1]) - 1].name[:MOST_OF_A_NAME]

    def _bracketed(self, found: re.Match[str]) -> str:
        """A barcode behind a name, in brackets, adds nothing."""
        code = codes.barcode(found)
        known = code in {material.barcode for material in self.materials}
        inside = codes.BARCODE.search(found[0])
        gone = code not in self.given and (known or (inside is not None and codes.stands_alone(inside)))
        return "" if gone else found[0]


def linked(
    entries: Sequence[Mapping[str, Any]], drafts: Sequence[Draft], inputs: Inputs, remarks: Remarks
) -> tuple[Draft, ...]:
    """The drafts with `replaces` and `derived_from` as barcodes; echoes of unlimited inputs are left out."""
    claims = [_claimed(entry, at, inputs, remarks) for at, entry in enumerate(entries)]
    claims = _by_name(entries, drafts, claims, inputs)
    found, taken = [], set()
    for at, (entry, draft, claim) in enumerate(zip(entries, drafts, claims, strict=True)):
        place = f"new_materials[{at}]"
        if _echo(draft, claim, inputs):
            remarks.told(f"{place}: {quoted(draft.name)} is unlimited and stays as it is")
            continue
        if draft.available_for_use == UNLIMITED:
            remarks.wrong(f"{place}.available_for_use is unlimited: nothing becomes unlimited")
        if claim is not None and claim.available_for_use == UNLIMITED:
            remarks.wrong(
                f"{place}.replaces names {quoted(claim.name)}, which is unlimited and never handed back; leave replaces"
                " out if this is a portion of it"
            )
        elif claim is not None and claim.barcode in taken:
            remarks.wrong(f"{place}.replaces names {quoted(claim.name)}, which another material replaces already")
        code = claim.barcode if claim is not None else ""
        taken.add(code)
        _tell_if_mistaken(place, draft, claim, drafts, inputs, remarks)
        found.append(replace(draft, replaces=code, derived_from=_parents(entry, code, place, inputs, remarks)))
    return tuple(found)


def _tell_if_mistaken(
    place: str, draft: Draft, claim: Material | None, drafts: Sequence[Draft], inputs: Inputs, remarks: Remarks
) -> None:
    """A tube that is itself called S1 is easily taken for the alias S1, and two tubes change places."""
    meant = inputs.named(draft.name)
    if claim is None or meant is None or meant.barcode == claim.barcode or plain(claim.name) == plain(draft.name):
        return
    alike = [other for other in drafts if plain(other.name) == plain(draft.name)]
    if _limited(meant) and len(alike) == 1:  # two of that name: one of them may have been poured from the other
        remarks.wrong(
            f"{place} is called {quoted(draft.name)} as the input {alias(inputs.materials.index(meant))} is, and replaces"
            f" {alias(inputs.materials.index(claim))}, which is called {quoted(claim.name)}: write the alias of the input"
            " that it continues, or give it a name of its own"
        )


def tell_what_is_gone(drafts: Sequence[Draft], inputs: Inputs, remarks: Remarks) -> None:
    """Inputs that an outcome says nothing of."""
    kept = {draft.replaces for draft in drafts}
    gone = [material.name for material in inputs.materials if _limited(material) and material.barcode not in kept]
    if gone:
        more = f" and {len(gone) - 5} more" if len(gone) > 5 else ""
        remarks.told(f"not handed back and so used up: {', '.join(quoted(name, 30) for name in gone[:5])}{more}")


def _claimed(entry: Mapping[str, Any], at: int, inputs: Inputs, remarks: Remarks) -> Material | None:
    """The input that `replaces` names. A barcode or a word that stands for none is dropped."""
    written = entry.get("replaces")
    if isinstance(written, list) and len(written) == 1:
        written = written[0]
    if written is None or written == [] or (isinstance(written, str) and not written.strip()):
        return None
    if not isinstance(written, str):
        remarks.wrong(f"new_materials[{at}].replaces must be the alias of one input, such as S1")
        return None
    found = inputs.find(written)
    if found is None:
        remarks.told(f"new_materials[{at}].replaces {quoted(written)} is no input and was left out")
    return found


def _by_name(
    entries: Sequence[Mapping[str, Any]],
    drafts: Sequence[Draft],
    claims: Sequence[Material | None],
    inputs: Inputs,
) -> list[Material | None]:
    """Where nothing readable stands in `replaces`, a material continues the one input whose name it alone bears."""
    taken = {claim.barcode for claim in claims if claim}
    silent = [
        claim is None and ("replaces" not in entry or bool(entry["replaces"]))
        for entry, claim in zip(entries, claims, strict=True)
    ]
    meant = [inputs.named(draft.name) if quiet else None for draft, quiet in zip(drafts, silent, strict=True)]
    codes = [material.barcode for material in meant if material]
    return [
        claim or (one if one and one.barcode not in taken and codes.count(one.barcode) == 1 and _limited(one) else None)
        for claim, one in zip(claims, meant, strict=True)
    ]


def _limited(material: Material) -> bool:
    return material.available_for_use != UNLIMITED


def _echo(draft: Draft, claim: Material | None, inputs: Inputs) -> bool:
    """An unlimited input handed back as what it was."""
    named = claim or inputs.named(draft.name)
    return draft.available_for_use == UNLIMITED and named is not None and not _limited(named)


def _parents(entry: Mapping[str, Any], itself: str, place: str, inputs: Inputs, remarks: Remarks) -> tuple[str, ...]:
    """The barcodes of `derived_from`. Something new of an action with a single input comes from that."""
    written = entry.get("derived_from")
    words = written.split(",") if isinstance(written, str) else written or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        remarks.wrong(f'{place}.derived_from must be a list of aliases, such as ["S1", "S2"]')
        return ()
    if len(words) > MOST_MATERIALS:
        remarks.wrong(f"{place}.derived_from has {len(words)} entries; allowed: {MOST_MATERIALS}")
        return ()
    found = [material.barcode for word in words if (material := inputs.find(word))]
    if len(found) < sum(1 for word in words if word.strip()):
        remarks.told(f"{place}.derived_from names what is no input; that was left out")
    if not found and not itself and len(inputs.materials) == 1:
        found = [inputs.materials[0].barcode]
    return tuple(code for code in dict.fromkeys(found) if code != itself)
