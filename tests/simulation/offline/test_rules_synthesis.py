"""Synthesised strands and peptides: their mass, their amount, and what is rejected."""

from decimal import Decimal

import pytest

from simulation.offline.handlers.preparation import DNA, PEPTIDE, PNA, RNA, compute_molecular_mass
from tests.support.laboratory_factory import SmallLab, build_material


@pytest.fixture
def small(lab):
    return SmallLab(lab.catalogue, build_material("water", volume="50 mL", capacity="100 mL"))


@pytest.mark.parametrize(
    ("chain", "sequence", "mass"),
    [
        # 313.21 + 289.18 + 329.21 + 304.20 - 61.96
        (DNA, "ACGT", "1173.84"),
        # 329.21 + 305.18 + 345.21 + 306.17 - 61.96
        (RNA, "ACGU", "1223.81"),
        # 275.27 + 266.26 + 17.03
        (PNA, "AT", "558.56"),
        # glutathione's three residues as a plain chain: 129.12 + 103.14 + 57.05 + 18.02
        (PEPTIDE, "ECG", "307.33"),
    ],
)
def test_chain_mass_is_the_sum_of_residues_and_ends(chain, sequence, mass):
    assert compute_molecular_mass(chain, sequence) == Decimal(mass)


def test_peptide_amide_weighs_less_and_dna_with_a_mixed_base_has_no_calculated_mass():
    assert compute_molecular_mass(PEPTIDE, "ECG", amide=True) == Decimal("306.35")  # 307.33 - 0.98
    assert compute_molecular_mass(DNA, "ACGN") is None


def test_synthesis_gives_one_tube_per_primer_dissolved_as_ordered(small):
    step = small.run_step("DNASynthesis", "", "f r", sequences="ACGTACGTAC; TTTTGGGGCC", delivered_amount="10 nmol",
                    dissolve_volume="100 µL", label="Primer")  # fmt: skip
    assert [draft.name for draft in step.outcome.new_materials] == ["Primer 1", "Primer 2"]
    # 10 nmol in 100 µL are 100 µM
    assert small.get_property("f", "DNA ACGTACGTAC concentration") == "100 µM"
    assert (small.get_property("f", "phase"), small.get_property("f", "volume"), small.get_property("f", "length")) == (
        "liquid",
        "100 µL",
        "10 nt",
    )
    # 4 T, 4 G, 2 C: 4 x 304.20 + 4 x 329.21 + 2 x 289.18 - 61.96 = 3050.04
    assert small.get_property("r", "molecular mass") == "3050.04 Da"
    assert small.bench.elapsed == 24 * 3600


def test_synthesis_without_a_delivered_amount_has_an_unknown_amount(small):
    small.run_step("RNASynthesis", "", "guide", sequences="ACGUACGU")
    assert small["guide"].ledger["components"]["RNA ACGUACGU"] == {"dimension": "amount", "amount": "", "known": False}
    assert small.get_property("guide", "phase") == "solid"
    small.run_step("Resuspend", "guide water", solvent="@water", volume="50 µL")
    assert (small.get_property("guide", "phase"), small.get_property("guide", "volume")) == ("liquid", "50 µL")


def test_modified_dna_strand_shows_its_modifications_and_no_molecular_mass(small):
    small.run_step("DNASynthesis", "", "probe", sequences="ACGTACGT", five_prime_modification="6-FAM")
    assert (small.get_property("probe", "5' end"), small.get_property("probe", "molecular mass")) == ("6-FAM", None)


def test_a_peptide_amide_has_the_mass_of_an_amide(small):
    small.run_step("PeptideSynthesis", "", "tri", sequences="ECG", c_terminus="amide", delivered_amount="20 µmol")
    assert (small.get_property("tri", "molecular mass"), small.get_property("tri", "C end")) == ("306.35 Da", "amide")
    assert small.get_property("tri", "peptide ECG amount") == "20 µmol"


def test_synthesis_rejects_a_delivered_amount_above_the_scale(small):
    reason = small.get_rejection("PNASynthesis", "", sequences="ACGTAC", scale="2 µmol", delivered_amount="3 µmol")
    assert reason == "short of amount: needs 3 µmol of each, a scale of 2 µmol gives no more than that"


@pytest.mark.parametrize(
    ("action", "sequences"),
    [("DNASynthesis", "ACGU"), ("RNASynthesis", "ACGT"), ("PNASynthesis", "ACGTN"), ("PeptideSynthesis", "ACBX"),
     ("DNASynthesis", "A"), ("DNASynthesis", "A" * 201), ("DNASynthesis", "ACGT, ACGT"), ("DNASynthesis", "acgt")],
)  # fmt: skip
def test_catalogue_rejects_letters_and_lengths_that_no_synthesizer_makes(small, action, sequences):
    step = small.run_step(action, "", sequences=sequences)
    assert step.outcome.rejected_by == "catalogue"
    assert step.outcome.failure_reason.startswith("sequences is")
