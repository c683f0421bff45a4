"""The report of the audit: detectors, texts and spread, as text, as JSON and as the tables of docs/twins.md."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import binomtest

from simulation.twin_audit import balance, detection, error_types, reach, texts
from simulation.twin_audit.pairs import TwinPair

START, END = "<!-- audit: written by manage.py audit_twins --write -->", "<!-- end of audit -->"
_MOST_TEXTS, _MOST_FIELDS = 20, 8  # rows of a table; the JSON has all

Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class AuditReport:
    """What the audit measured on these pairs. Every result stays in the report, whether it is within its aim or not."""

    seed: int
    pairs: int
    originals: int
    detectors: tuple[detection.DetectorResult, ...]
    texts: tuple[texts.TextDifference, ...]
    spreads: tuple[balance.Spread, ...]
    types: tuple[error_types.TypeCount, ...]
    reaches: tuple[reach.Reach, ...]

    @property
    def all_faults(self) -> list[str]:
        """The results that miss their aim, one sentence each."""
        faults = [
            f"the detector {result.name} finds {found.share:.0%} of {found.error_type} errors, at most {found.aim:.0%} is allowed"
            for result in self.detectors
            for found in result.found
            if not found.is_within_aim
        ]
        faults += [
            f"{each.text!r} ({each.place}) is in {each.twins} {each.error_type} twins and {each.originals} originals"
            for each in self.texts
            if not each.is_within_aim
        ]
        faults += [
            f"two fields have {spread.share_of_two_fields:.0%} of {spread.error_type} errors:"
            f" {', '.join(name for name, _ in spread.fields[:2])}"
            for spread in self.spreads
            if not spread.is_within_aim
        ]
        faults += [
            f"{count.disagreements} {count.error_type} errors look like the other type: "
            + ", ".join(f"{kind} {number}" for kind, number in count.disagreeing_kinds)
            for count in self.types
            if not count.is_within_aim
        ]
        faults += [
            f"{each.systematic_share:.0%} of the {each.error_type} errors that hit replicates are in all of them"
            for each in self.reaches
            if not each.is_within_aim
        ]
        return faults


def build_report(
    pairs: Sequence[TwinPair], seed: int, report_progress: Callable[[str], None] = lambda _: None
) -> AuditReport:
    """Measure all detectors, texts and spreads on these pairs."""
    detectors = detection.measure_detectors(pairs, seed, report_progress)
    report_progress("texts")
    differences = texts.find_text_differences(pairs)
    originals = sum(
        1
        for before, pair in zip([None, *pairs[:-1]], pairs, strict=True)
        if before is None or before.original != pair.original
    )
    spreads, types = balance.measure_spreads(pairs), error_types.count_error_types(pairs)
    return AuditReport(
        seed,
        len(pairs),
        originals,
        tuple(detectors),
        tuple(differences),
        tuple(spreads),
        tuple(types),
        tuple(reach.measure_reach(pairs)),
    )


def report_to_json(report: AuditReport) -> dict[str, Any]:
    """Return everything that was measured, with every text and field."""
    return {
        "seed": report.seed,
        "pairs": report.pairs,
        "originals": report.originals,
        "false_alarms": detection.FALSE_ALARMS,
        "detectors": [
            {
                "name": result.name,
                "looks_at": result.looks_at,
                "found": [{**found._asdict(), "aim": found.aim} for found in result.found],
            }
            for result in report.detectors
        ],
        "texts": [{**each._asdict(), "difference": each.difference} for each in report.texts],
        "spreads": [
            {**spread._asdict(), "kinds": dict(spread.kinds), "fields": dict(spread.fields)}
            for spread in report.spreads
        ],
        "types": [{**count._asdict(), "disagreeing_kinds": dict(count.disagreeing_kinds)} for count in report.types],
        "reach": [each._asdict() for each in report.reaches],
        "faults": report.all_faults,
    }


def format_report(report: AuditReport) -> str:
    """Return the tables in Markdown, with a sentence before each."""
    sizes = ", ".join(f"{spread.twins:,} with {spread.error_type} errors" for spread in report.spreads)
    n_texts, n_alone = len(report.texts), sum(each.is_in_twins_alone for each in report.texts)
    paragraphs = [
        f"{report.pairs:,} twins ({sizes}) of {report.originals:,} steps, seed {report.seed}.",
        "### Detectors without science",
        f"Share of errors found at {detection.FALSE_ALARMS:.0%} false alarms, with the exact 95% interval over twins.",
        format_table(("Detector", "Looks at", *_list_type_headings()), _list_detector_rows(report)),
        "### Texts",
        f"{n_texts} texts occur significantly more or less often in twins than in their originals; {n_alone} occur in twins alone.",
        format_table(
            ("Error", "Place", "Text", "Twins", "Originals", "Gained", "Lost", "Difference", "p"),
            _list_text_rows(report),
        ),
        "### Spread",
        "Most frequent fields and kinds of the errors of each type, and the share of errors in records.",
        format_table(("Error", "In records", "Fields", "Kinds"), _list_spread_rows(report)),
    ]
    paragraphs += [
        "### Replicates, records and science",
        "Errors in all replicates among those that hit replicates, with the exact 95% interval; errors in records by what the"
        " step records; errors of kinds that need biology or chemistry.",
        format_table(
            (
                "Error",
                "In all replicates",
                "Steps with measurements",
                "Steps with notes only",
                "Steps without records",
                "Need science",
            ),
            _list_reach_rows(report),
        ),
        "### Obvious or subtle",
        "What the visible difference alone says about the errors of each type; words that need science are undecided.",
        format_table(("Planted as", "Obvious", "Subtle", "Undecided"), _list_type_rows(report)),
    ]
    return "\n\n".join(paragraphs)


def _list_type_headings() -> list[str]:
    return [f"{str(error_type).capitalize()} (aim: at most {aim:.0%})" for error_type, aim in detection.AIMS.items()]


def _list_detector_rows(report: AuditReport) -> Rows:
    return [
        (
            result.name,
            result.looks_at,
            *(f"{found.share:.0%} ({100 * found.low:.0f} to {found.high:.0%})" for found in result.found),
        )
        for result in report.detectors
    ]


def _list_text_rows(report: AuditReport) -> Rows:
    return [
        (
            each.error_type,
            each.place,
            # A vertical bar would end the cell.
            f"`{each.text.replace('|', '/')}`",
            str(each.twins),
            str(each.originals),
            str(each.gained),
            str(each.lost),
            f"{100 * each.difference:+.1f} points",
            f"{each.p:.1g}",
        )
        for each in report.texts[:_MOST_TEXTS]
    ]


def _list_spread_rows(report: AuditReport) -> Rows:
    return [
        (
            spread.error_type,
            f"{spread.in_records:.0%}",
            *(
                ", ".join(f"{name} {share:.0%}" for name, share in shares[:_MOST_FIELDS])
                for shares in (spread.fields, spread.kinds)
            ),
        )
        for spread in report.spreads
    ]


def _list_reach_rows(report: AuditReport) -> Rows:
    return [
        (
            each.error_type,
            f"{_format_share(each.systematic, each.systematic + each.single)} of {each.systematic + each.single:,}",
            *(f"{part / max(whole, 1):.0%} of {whole:,} in records" for part, whole in (each.measured, each.noted)),
            f"{each.without_records:,}",
            f"{each.scientific / each.twins:.0%}",
        )
        for each in report.reaches
    ]


def _format_share(part: int, whole: int) -> str:
    if not whole:
        return "none"
    low, high = binomtest(part, whole).proportion_ci(0.95, "exact")
    return f"{part / whole:.0%} ({100 * low:.0f} to {high:.0%})"


def _list_type_rows(report: AuditReport) -> Rows:
    return [(count.error_type, str(count.obvious), str(count.subtle), str(count.undecided)) for count in report.types]


def format_table(headings: Sequence[str], rows: Rows) -> str:
    """Return a table in Markdown."""
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def insert_report(page: str, report: AuditReport) -> str:
    """Return the page with the report between its markers."""
    before, _, rest = page.partition(START)
    return f"{before}{START}\n\n{format_report(report)}\n\n{END}{rest.partition(END)[2]}"
