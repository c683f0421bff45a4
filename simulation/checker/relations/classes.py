"""L20: counts of classes that exclude each other make up their whole, and the share of one class follows from the signals of both."""

from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Decided, Findings, compare, error_finding
from simulation.checker.reading import claims
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label, is_count

ZERO = Decimal(0)
_GATE = compile_label(r"\blive\b|\bliving\b|\bviable\b|\bsinglets?\b|\bsingle\b|\bgated?\b|\bparent\b|\bintact\b")
_WHOLE = compile_label(
    r"\b(?:total|tot|all|sum|overall|gesamt\w*|insgesamt|totale?s?)\b|\bn$|\bn total\b|\bevaluated\b|\bscored\b|\bpicked\b|\bexamined\b|\bcounted\b"
)
_SUBSET = compile_label(
    r"\b(?:of which|thereof|of these|of them|including|incl|among|davon|dont|each|per|replicates?|min|limit|threshold|thr|day|page|cycle|ct|area|nm|channel|mean)\b"
)
_REST = compile_label(
    r"\b(?:none|no|not|neither|without|failed|fail|rest|remaining|others?|unclear|undetermined|undecided|ambiguous|empty|absent|negative|neg|dark|dead|uncut|uncleaved|no growth|no call|keine|ohne|aucun\w*|sans)\b|-(?:\s|$)"
)
_EXCLUSIVE = compile_label(
    r"\b(?:exactly|only) one (?:class|group|category|call)|\bexclusive\b|\bclass(?:es)?\b|\bbreakdown\b|\btally\b|\bcategor\w+"
)


# Classes that exclude each other, by the words of their names.
_FAMILIES = tuple(
    tuple(compile_label(pattern) for pattern in family)
    for family in (
        (r"\b(?:live|living|viable|unstained|intact)\b", r"\b(?:dead|stained|lysed|broken|debris|blue)\b"),
        (r"\bwhite\b", r"\bblue\b"), (r"\bgreen\b|\bfluorescent\b|\bglow\w*", r"\bwhite\b|\bdark\b|\bcolou?rless\b"),
        (r"\battached\b|\badherent\b", r"\bfloating\b|\bdetached\b|\bsuspended\b"), (r"\bsurviv\w+\b|\balive\b", r"\bdead\b|\bdied\b|\blost\b"),
        (r"\bpositives?\b|\bpositifs?\b|\bpositiv\w*|\bwith\b", r"\bnegatives?\b|\bnegatifs?\b|\bnegativ\w*|\bwithout\b"),
        (r"\b(?:wt|wild[- ]?type|\+/\+|wt/wt)(?!\w)", r"\b(?:het\w*|\+/-)(?!\w)", r"\b(?:hom\w*|mut\w*|-/-)(?!\w)"),
        (r"\bhatched\b", r"\bunhatched\b"), (r"\bcorrect\b|\bin[- ]frame\b", r"\bincorrect\b|\bwrong\b|\bmutated\b"), (r"\bempty\b", r"\bfilled\b|\boccupied\b"),
        (r"(?<!un)\bcleaved\b|\bproducts?\b|\bfree\b", r"\buncleaved\b|\bfull[- ]length\b|\bfusion\b|\bprecursor\b"), (r"\bcut\b|\bdigested\b", r"\buncut\b|\bundigested\b"),
        (r"\bsingle\w*\b", r"\bdoubl\w*|\bmultipl\w*|\bclump\w*"), (r"\bbound\b", r"\bunbound\b|\bfree\b"), (r"\bgrown?\b|\bgrowth\b", r"\bno growth\b|\bnot grown\b"),
        (r"\bresponders?\b|\bresponding\b", r"\bnon-?respond\w*|\bsilent\b"), (r"\bfertili[sz]ed\b", r"\bunfertili[sz]ed\b"), (r"\bmales?\b", r"\bfemales?\b"),
        (r"\bpassed\b", r"\bfailed\b|\brejected\b"), (r"\binfected\b|\btransduced\b|\btransfected\b", r"\buninfected\b|\buntransduced\b|\buntransfected\b"),
    )
)  # fmt: skip


def check_classes(transition: Transition) -> Findings:
    """L20: check the counts of classes, and the share of one of two classes, in every observation."""
    for seen, found in claims.list_observed(transition):
        yield from _check_classes(seen.path, found)
        yield from _check_signals(seen.path, found)


_SHARE_NAME = compile_label(
    r"\bcleav\w*|\bviab\w*|\bgreen\b|\bwhite\b|\bsurviv\w*|\binfect\w*|\btransduc\w*|\btransfect\w*|\bbound\b|\bcut\b|\bdigest\w*|\bhatch\w*|\bresponders?\b|\bfertili\w*|\bconver\w*|\bprocessed\b"
)
_NO_SHARE = compile_label(
    r"\brecover\w*|\bcv\b|\brsd\b|\bsd\b|\bexpected\b|\bcontrol\b|\bmock\b|\bpurity\b|\bchange\b|\berror\b|\bdilut\w*|\bgel\b|\btarget\b"
)


def _check_signals(subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless "full length 3200, cleaved 12800 (cleavage 80 %)" has the share that its two signals give."""
    shares = [
        c
        for c in found
        if c.dimension == "ratio"
        and _SHARE_NAME.search(c.own_label)
        and not _NO_SHARE.search(c.label)
        and 0 < c.value <= 100
    ]
    for family in _FAMILIES if len({c.value for c in shares}) == 1 else ():
        if len(family) != 2:
            continue
        first, second = (
            [c for c in found if name.search(c.own_label) and c not in shares and c.value > 0] for name in family
        )
        both = {*(c.value for c in first)} & {*(c.value for c in second)}
        if (
            len({c.value for c in first}) != 1
            or len({c.value for c in second}) != 1
            or both
            or first[0].dimension != second[0].dimension
            or first[0].dimension == "ratio"
        ):
            continue
        whole, stated = first[0].value + second[0].value, shares[0]
        possible = [first[0].value / whole * 100, second[0].value / whole * 100]
        nearest = min(possible, key=lambda share: abs(share - stated.value))
        allowed, shown = Decimal(1) + stated.step, (f"{nearest:.1f} %", f"{stated.value} %")
        text = f"{first[0].text} and {second[0].text} correspond to shares of {possible[0]:.1f} % and {possible[1]:.1f} %, not {stated.value} %"
        yield from compare("L20", subject, nearest, stated.value, "ratio", text, allowed, allowed, shown=shown)


def _check_classes(subject: str, found: list[Claim]) -> Findings:
    """Yield an error if the counts of exclusive classes, one of which is the rest, cannot make up the stated whole."""
    counts = [claim for claim in found if is_count(claim) and not _SUBSET.search(claim.label)]
    wholes = [claim for claim in counts if claim.matches(_WHOLE)]
    parts = [claim for claim in counts if not claim.matches(_WHOLE)]
    labels = {claim.label for claim in parts}
    if (
        (len(parts) > 2 and any(claim.matches(_GATE) for claim in counts))
        or len({claim.value for claim in wholes}) != 1
        or not 2 <= len(parts) <= 8
        or len(labels) != len(parts)
    ):
        return
    families = [family for family in _FAMILIES if sum(any(name.search(c.label) for c in parts) for name in family) >= 2]
    if (
        not families
        and not any(claim.matches(_REST) for claim in parts)
        and not any(_EXCLUSIVE.search(f"{c.label} {c.context}") for c in found)
    ):
        return
    whole = wholes[0].value
    if (
        whole < 2
        or any(claim.value > whole for claim in parts)
        or max(claim.value for claim in parts) * len(parts) * 3 < whole
    ):
        return
    yield Decided("L20", quantity=True)
    # Classes may be divided further, so any selection that makes up the whole is accepted.
    values = [claim.value for claim in parts]
    if any(sum(chosen) == whole for size in range(1, len(values) + 1) for chosen in combinations(values, size)):
        return
    total = sum(values, ZERO)
    is_complete = any(
        len(family) == len(parts) == sum(any(name.search(c.label) for c in parts) for name in family)
        for family in families
    )
    if total > whole or len(parts) >= 3 or is_complete:
        text = f"{' + '.join(str(value) for value in values)} is {total}, not {whole}"
        yield error_finding("L20", subject, str(whole), str(total), text)
