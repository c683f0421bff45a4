"""How each action is carried out: the name in an action file's `handler` -> the function."""

from collections.abc import Callable

from simulation.offline.handlers import liquids, measurements, separations, thermal, viewing
from simulation.offline.job import Job


def end(job: Job) -> None:
    """Submit and Quit change nothing; the environment ends the attempt."""
    job.how = "The attempt ends; nothing is touched."


HANDLERS: dict[str, Callable[[Job], None]] = {
    "transfer": liquids.transfer,
    "aliquot": liquids.aliquot,
    "serial_dilute": liquids.serial_dilute,
    "dilute": liquids.dilute,
    "fill_to_volume": liquids.fill_to_volume,
    "combine": liquids.combine,
    "resuspend": liquids.resuspend,
    "discard": liquids.discard,
    "aspirate": separations.aspirate,
    "wash": separations.wash,
    "centrifuge": separations.centrifuge,
    "filter": separations.filter_samples,
    "extract_dna": separations.extract_dna,
    "mix": thermal.mix,
    "degas": thermal.degas,
    "incubate": thermal.incubate,
    "culture": thermal.culture,
    "thermocycle": thermal.thermocycle,
    "wait": thermal.wait,
    "storage": thermal.storage,
    "assay": measurements.assay,
    "cytometry": measurements.cytometry,
    "count_cells": measurements.count_cells,
    "measure_volume": measurements.measure_volume,
    "measure_weight": measurements.measure_weight,
    "probe": measurements.probe,
    "sequence": measurements.sequence,
    "gel": measurements.gel,
    "inspect": viewing.inspect,
    "photograph": viewing.photograph,
    "microscope": viewing.microscope,
    "end": end,
}
