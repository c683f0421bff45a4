"""Errors that biology shows: what cells live in, what they are, which genes they have and what antibodies bind."""

import random
import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.offline.injectors import edits, sizes
from simulation.offline.injectors.names import count_marks, count_numbers

# Liquids of a bench in which cells burst, are fixed or dissolve, and liquids that are media or buffers for them.
_LETHAL = re.compile(
    r"water|acetic acid|ethanol|methanol|dimethyl sulfoxide|formaldehyde|RIPA|bleach|acetonitrile|hydroxide|hydrochloric"
    r"|crystal violet|nitric acid|loading dye|silver nitrate",
    re.IGNORECASE,
)
_NUTRIENT = re.compile(r"DMEM|Neurobasal|medium|broth|LB\b|buffer|saline|Opti-MEM", re.IGNORECASE)
# Lines of one species, and cells of another: taking one line for another is subtle, another species is not.
_HUMAN_LINES = ("HEK293T", "HeLa")
_RAT_NEURONS = (
    "primary hippocampal neurons, embryonic day 18, Sprague-Dawley rat",
    "primary cortical neurons, embryonic day 18, rat",
)
# Words of a vessel's name that state the line, so that the name contradicts another one.
_LINE_WORDS = re.compile(r"HEK|293T|HeLa|hippocamp|cortical|cortex|neuron", re.IGNORECASE)
_LIVING = ("adherent culture", "suspension")
_GENOTYPES = ("WT/WT", "WT/nacre", "nacre/nacre")
_TARGETS = ("GFP", "mCherry", "beta-actin")
_LETHAL_GAS = (("carbon dioxide", ("40 %", "60 %", "85 %")), ("humidity", ("5 %", "8 %", "15 %")))
_ALIVE, _DEAD = 50, ("2 %", "4 %", "7 %", "11 %")  # per cent of living cells
_INSERTS = {"none": "GFP, sequenced before: sense, in frame, no mutation"}
# What a read says of the direction of an insert, exchanged by an error.
_STRANDS = (
    ("read forwards", "read backwards"),
    ("in sense", "in antisense"),
    ("its complement as in the reference", "as in the reference"),
    ("the start of GFP", "the end of GFP"),
)
# A codon beside the meaning that a read gives it: TAA and TAG stop, CAG is glutamine, ATG starts.
_CODONS = (
    ("stop codon TAA", "stop codon TGG"),
    ("vector ATG", "vector ATC"),
    ("vector ATG", "vector ACG"),
    ("vector ATG", "vector AAG"),
    ("stop codon TAA", "stop codon TCA"),
)
_ALLELES = (("C only (CAG)", "C only (TAG)"), ("T only (TAG)", "T only (CAG)"), ("(CAG and TAG)", "(CAG and CAC)"))
_SKIPPED = 0.7
_READ_END = re.compile(r"(?<=to )[0-9]+(?= of GFP)|(?<=from base )[0-9]{3}\b|(?<=at base )[0-9]+\b")


@edits.plants(edits.OBVIOUS, "cells live in a medium of their tonicity, and in no solvent or acid", science=True)
def lethal_medium(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which living cells are in a liquid of the bench that kills them."""
    yield from _change_medium(case, rng, lambda name: _LETHAL.search(name) is not None)


@edits.plants(edits.SUBTLE, "cells stay in the medium that they are given", science=True)
def wrong_medium(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which cells are in another medium or buffer of the bench, which the step did not use."""
    yield from _change_medium(case, rng, lambda name: _NUTRIENT.search(name) is not None and not _LETHAL.search(name))


def _change_medium(case: edits.Case, rng: random.Random, fits: edits.Predicate) -> edits.Errors:
    liquids = [one.name for one in case.bystanders if one.properties.get("phase") == "liquid" and fits(one.name)]
    cultures = [one for one in case.materials if "medium" in one.draft.properties and one.phase in _LIVING]
    for material in edits.sample_places(rng, cultures):
        right = str(material.draft.properties["medium"])
        # Media are often mixtures with long names; without this, planted ones would have fewer numbers and marks. It is
        # drawn once, because one plain name among several would be as likely to be chosen as all of them.
        allows_plain = rng.random() >= _SKIPPED
        for name in edits.sample_places(rng, sorted(set(liquids)))[:3]:
            is_plain = any(count(name) < count(right) for count in (count_marks, count_numbers))
            if name not in right and (allows_plain or not is_plain):
                yield (
                    f"the cells of {material.name} are in {name}; their medium is {right}",
                    material.change("medium", name),
                )


@edits.plants(edits.OBVIOUS, "no step turns the cells of one species into those of another", science=True)
def species_change(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a human cell line has become rat neurons, or the other way round."""
    present = _list_present_lines(case)
    for material, right in _list_cell_types(case, rng):
        for wrong in _RAT_NEURONS if right in _HUMAN_LINES else _HUMAN_LINES if right in _RAT_NEURONS else ():
            if wrong in present:
                yield f"{material.name} holds {wrong}; it was seeded with {right}", material.change("cell type", wrong)


@edits.plants(edits.SUBTLE, "a culture keeps its cell line", science=True)
def mixed_up_line(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a culture is of another line or tissue of the same species."""
    present = _list_present_lines(case)
    for material, right in _list_cell_types(case, rng):
        for group in (_HUMAN_LINES, _RAT_NEURONS):
            for wrong in group if right in group else ():
                if wrong != right and wrong in present:
                    yield (
                        f"{material.name} holds {wrong}; it was seeded with {right}",
                        material.change("cell type", wrong),
                    )


def _list_cell_types(case: edits.Case, rng: random.Random) -> Iterator[tuple[edits.Produced, str]]:
    cultures = [
        one for one in case.materials if "cell type" in one.draft.properties and not _LINE_WORDS.search(one.name)
    ]
    for material in edits.sample_places(rng, cultures):
        yield material, str(material.draft.properties["cell type"])


def _list_present_lines(case: edits.Case) -> set[str]:
    """Return the cell types on the bench: only those can be taken for each other."""
    return {str(one.properties["cell type"]) for one in case.situation.inventory if "cell type" in one.properties}


@edits.plants(edits.OBVIOUS, "cells do not die from correct handling", science=True)
def dead_without_cause(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which hardly a cell is alive after a step that does not harm cells."""
    for material in edits.sample_places(rng, case.materials):
        right = str(material.draft.properties.get("viability", ""))
        for wrong in _DEAD if right.endswith(" %") and Decimal(right[:-2]) > _ALIVE else ():
            yield f"{wrong} of the cells of {material.name} are alive, not {right}", material.change("viability", wrong)


@edits.plants(edits.SUBTLE, "cells do not die from correct handling", science=True)
def weakened_without_cause(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which clearly fewer cells are alive after a step that does not harm cells."""
    for material in edits.sample_places(rng, case.materials):
        right = str(material.draft.properties.get("viability", ""))
        for factor in sizes.draw_factors(case.sizes, rng) if right.endswith(" %") else ():
            if factor < 1:
                wrong = sizes.scale_reading(right, factor)
                yield (
                    f"{wrong} of the cells of {material.name} are alive, not {right}",
                    material.change("viability", wrong),
                )


@edits.plants(edits.OBVIOUS, "mammalian cells need humid air with some carbon dioxide", science=True)
def lethal_atmosphere(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the incubator's air acidifies or dries out the cultures."""
    for material in edits.sample_places(rng, case.materials):
        for name, wrong_texts in _LETHAL_GAS:
            for wrong in wrong_texts if name in material.draft.properties else ():
                right = material.draft.properties[name]
                yield f"{name} of {material.name} is {wrong}; cells are kept at {right}", material.change(name, wrong)


@edits.plants(edits.OBVIOUS, "no handling changes the genome", science=True)
def genotype_reversed(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a wild type has become a homozygous mutant, or the other way round."""
    yield from _change_options(case, rng, "genotype", {_GENOTYPES[0]: _GENOTYPES[2:], _GENOTYPES[2]: _GENOTYPES[:1]})


@edits.plants(edits.SUBTLE, "no handling changes the genome", science=True)
def allele_lost(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a fish has one allele more or less than it was born with."""
    middle = _GENOTYPES[1]
    others = {middle: (_GENOTYPES[0], _GENOTYPES[2]), _GENOTYPES[0]: (middle,), _GENOTYPES[2]: (middle,)}
    yield from _change_options(case, rng, "genotype", others)


@edits.plants(edits.SUBTLE, "an antibody binds its own target", science=True)
def wrong_target(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which an antibody is against another protein than its name says."""
    others = {right: tuple(wrong for wrong in _TARGETS if wrong != right) for right in _TARGETS}
    yield from _change_options(case, rng, "target", others)


@edits.plants(edits.SUBTLE, "a plasmid has no insert unless one was cloned", science=True)
def wrong_insert(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which the empty vector carries the insert, or the verified clone carries none."""
    both = {**_INSERTS, **{carried: none for none, carried in _INSERTS.items()}}
    yield from _change_options(case, rng, "insert", {right: (wrong,) for right, wrong in both.items()})


def _change_options(
    case: edits.Case, rng: random.Random, name: str, others: dict[str, tuple[str, ...]]
) -> edits.Errors:
    candidates = [one for one in case.materials if str(one.draft.properties.get(name)) in others]
    for material in edits.sample_places(rng, candidates):
        right = str(material.draft.properties[name])
        for wrong in others[right]:
            yield f"{name} of {material.name} is {wrong}; it is still {right}", material.change(name, wrong)


@edits.plants(edits.SUBTLE, "an insert is read in its actual orientation", science=True)
def wrong_strand(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which one statement on the direction of an insert contradicts the rest of the read."""
    yield from _exchange_words(case, rng, (*_STRANDS, *((second, first) for first, second in _STRANDS)))


@edits.plants(edits.SUBTLE, "a codon means what the genetic code says", science=True)
def codon_without_meaning(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a stop or start codon is none, or a base call is not in the codon given."""
    yield from _exchange_words(case, rng, (*_CODONS, *_ALLELES))


def _exchange_words(case: edits.Case, rng: random.Random, pairs: tuple[tuple[str, str], ...]) -> edits.Errors:
    reads = [reading for reading in case.readings if "Sequencing" in reading.description]
    for reading in edits.sample_places(rng, reads):
        for right, wrong in pairs:
            if right in reading.value and wrong not in reading.value:
                text = reading.value.replace(right, wrong, 1)
                yield f"“{wrong}” contradicts the rest of the read, which says “{right}”", reading.change(text)


@edits.plants(edits.OBVIOUS, "a read ends after about a thousand bases, and within its gene", science=True)
def read_too_long(case: edits.Case, rng: random.Random) -> edits.Errors:
    """Yield errors in which a sequencing read covers more bases than the gene has."""
    reads = [reading for reading in case.readings if "Sequencing" in reading.description]
    for reading in edits.sample_places(rng, reads):
        for match in _READ_END.finditer(reading.value):
            for factor in sizes.draw_large_factors(rng, 2):
                wrong = str(max(2000, round(int(match[0]) * factor)) + rng.randrange(100))
                text = reading.value[: match.start()] + wrong + reading.value[match.end() :]
                yield f"base {wrong} of a gene of 717 bases", reading.change(text)
