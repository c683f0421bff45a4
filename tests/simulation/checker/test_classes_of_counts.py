"""Counts, shares and derived numbers in the idioms of printouts, exports, objects and sentences."""

import pytest

from tests.simulation.checker.test_relations import codes, measured

# (action, description, right value, wrong value); the arithmetic is in the comment
RECORDS = [
    # 9000 / 36000 = 25 %
    ("FlowCytometry", "export", "pop,count,pct_parent\nAll,50000,\nLive,36000,72.0\nGFP+,9000,25.0", "pop,count,pct_parent\nAll,50000,\nLive,36000,72.0\nGFP+,9000,45.0"),
    # 7715 / 8430 = 91.5 %
    ("FlowCytometry", "gates", [{"gate": "live", "n": 8430}, {"gate": "GFP+", "n": 7715, "pct_parent": 91.5}], [{"gate": "live", "n": 8430}, {"gate": "GFP+", "n": 7715, "pct_parent": 71.5}]),
    # 2000 + 18000 = 20000
    ("FlowCytometry", "stats", {"total_events": 20000, "debris": 2000, "intact": 18000}, {"total_events": 20000, "debris": 2000, "intact": 19500}),
    # 31 / 48 = 64.6 %
    ("QuantifyColonies", "picked 48 colonies", "31 green, 17 white (64.6 % green)", "31 green, 17 white (74.6 % green)"),
    # 84 + 36 = 120
    ("QuantifyColonies", "blue/white screening", "total 120; white 84; blue 36", "total 120; white 94; blue 36"),
    # 6 + 13 + 5 = 24
    ("qPCR", "genotypes", "n=24 | wt 6 | het 13 | hom 5", "n=24 | wt 6 | het 16 | hom 5"),
    # 25 / 48 = 0.521
    ("qPCR", "summary", "n_total=48 n_wt=11 n_het=25 n_mut=12 frac_het=0.521", "n_total=48 n_wt=11 n_het=25 n_mut=12 frac_het=0.621"),
    # 150 / 250 = 60 %
    ("UseMicroscope", "table", "| class | n | % |\n|---|---|---|\n| attached | 150 | 60.0 |\n| floating | 100 | 40.0 |\n| total | 250 | 100 |", "| class | n | % |\n|---|---|---|\n| attached | 150 | 80.0 |\n| floating | 100 | 40.0 |\n| total | 250 | 100 |"),
    # 12800 / 16000 = 80 %
    ("CapillaryWestern", "bands", "full length 3200, cleaved 12800 (cleavage 80 %)", "full length 3200, cleaved 12800 (cleavage 60 %)"),
    # 3600 / 1200 = 3
    ("UsePlateReader", "fluorescence before 1200 RFU, after 3600 RFU", "3.0-fold rise", "4.5-fold rise"),
    # 2^2 = 4
    ("qPCR", "expression", "ddCt -2.00, fold change 4.0", "ddCt -2.00, fold change 2.0"),
    # 10^(1 / 3.32) - 1 = 100 %
    ("qPCR", "standard curve", "slope -3.32, R2 0.999, efficiency 100 %", "slope -3.32, R2 0.999, efficiency 80 %"),
    # The mean of 0.52, 0.55 and 0.49 is 0.52.
    ("UsePhotospectrometer", "A600", {"replicates": [0.52, 0.55, 0.49], "mean": 0.52}, {"replicates": [0.52, 0.55, 0.49], "mean": 0.62}),
    # (1640 - 820) / 820 = 100 %
    ("UseMicroscope", "dF/F0 trace", "resting F 820, peak F 1640, ΔF/F0 100 %", "resting F 820, peak F 1640, ΔF/F0 200 %"),
    # 4250 / 17000 = 25 %
    ("FlowCytometry", "result", "4250 of 17000 singlets were GFP positive, i.e. 25 %", "4250 of 17000 singlets were GFP positive, i.e. 35 %"),
    # 12 + 3 + 1 = 16
    ("DNASequencing", "clones", "16 clones sequenced: 12 correct, 3 with a mutation, 1 failed", "16 clones sequenced: 12 correct, 6 with a mutation, 1 failed"),
    # 1 - 2000 / 8000 = 75 %
    ("UsePlateReader", "inhibition", {"control": 8000, "treated": 2000, "inhibition_percent": 75.0}, {"control": 8000, "treated": 2000, "inhibition_percent": 55.0}),
    # 0.145 - 0.083 = 0.062
    ("CyclicVoltammetry", "scan", "oxidation peak at 0.145 V and reduction peak at 0.083 V; separation 62 mV", "oxidation peak at 0.145 V and reduction peak at 0.083 V; separation 92 mV"),
    # The mean of 52, 48 and 50 is 50.
    ("QuantifyColonies", "plates", [{"plate": "1", "colonies": 52}, {"plate": "2", "colonies": 48}, {"plate": "3", "colonies": 50}, {"plate": "mean", "colonies": 50}], [{"plate": "1", "colonies": 52}, {"plate": "2", "colonies": 48}, {"plate": "3", "colonies": 50}, {"plate": "mean", "colonies": 70}]),
    # 1.20 / 0.57 = 2.11
    ("NucleicAcidQuantification", "A260 = 1.20, A280 = 0.65, A230 = 0.57", "260/280 = 1.85; 260/230 = 2.11", "260/280 = 1.85; 260/230 = 1.51"),
]  # fmt: skip


@pytest.mark.parametrize(("action", "description", "right", "wrong"), RECORDS)
def test_numbers_of_one_record_fit_each_other_in_every_idiom(action, description, right, wrong):
    assert codes(measured(action, {}, [(description, right, "quantitative")])) == set()
    assert codes(measured(action, {}, [(description, wrong, "quantitative")])) == {"L20"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"material": "glassy carbon"}, {"material": "platinum"}, {"L19"}),
        ({"contents": "HeLa cells in DMEM"}, {"contents": "CHO cells in DMEM"}, {"L19"}),
        ({"solvent": "acetonitrile"}, {"solvent": "MeCN, acetonitrile"}, set()),
        ({"buffer": "PBS"}, {"buffer": "PBS", "contains": "0.02 % sodium azide"}, {"L01"}),
    ],
)
def test_mixing_replaces_and_adds_no_substance(before, after, expected):
    assert codes(measured("Mix", {}, [], before, after)) == expected
