"""The analysis of a study as one JSON document. The same ratings give the same bytes: it has no clock and no order of rows."""

from typing import Any

from ratings.models import Study
from ratings.results.analyses import (
    composition,
    headline,
    sections_agreement,
    sections_contrasts,
    sections_detection,
    sections_machines,
    sections_planning,
    sections_raters,
    sections_rates,
)
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.form import STEPS as STEPS
from ratings.results.analyses.form import VERSION as VERSION
from ratings.results.analyses.form import Tell as Tell
from ratings.results.analyses.form import canonical as canonical
from ratings.results.analyses.form import digest as digest
from ratings.results.analyses.form import made_with as made_with
from ratings.results.analyses.form import silent as silent
from ratings.results.analyses.reading import Reading, read
from ratings.results.analyses.tables import FORMS, Json
from ratings.results.declared_models import find_declared_models
from ratings.stats import Ratings, panel
from ratings.stats.table import NO_TRUTH, NOT_STATED, REFERENCES
from ratings.studies.crossover import describe_cases, find_conditions, find_names
from ratings.studies.progress import stopping

MIN_OVERLAP = 20  # items two raters must share for their kappa to enter a mean


def make(
    study: Study, filters: Filters, mark: str, *, seed: int = 0, resamples: int = 2000, tell: Tell = silent
) -> Json:
    """Return the document of the ratings that pass the filters.

    Without `resamples`, numbers whose interval needs resampling have none. Raises SealedError before the study is unblinded.
    """
    tell(0, STEPS, "Loading the ratings")
    return written(study, filters, mark, read(study, filters), seed=seed, resamples=resamples, tell=tell)


def written(
    study: Study, filters: Filters, mark: str, found: Reading, *, seed: int, resamples: int, tell: Tell = silent
) -> Json:
    """Return the document of these ratings."""
    tell(1, STEPS, "Rates, agreement and detection with their intervals")
    results = panel.panel(found.table, found.repeats, seed=seed, resamples=resamples, min_overlap=MIN_OVERLAP)
    results += sections_detection.find_localisation(found)
    tell(2, STEPS, "Raters and machines")
    machines = sections_machines.found(study, found)
    machine_tables = sections_machines.tables(found, machines, MIN_OVERLAP, seed, resamples)
    tell(3, STEPS, "Expected precision with more data")
    precision_tables = sections_planning.tables(found)
    tell(4, STEPS, "Tables")
    verdict_words = {verdict: label.lower() for verdict, label in zip((1, 0), study.answers, strict=True)}
    raters = sections_raters.seats(study)
    declared = find_declared_models(study)
    conditions, names = find_conditions(study), find_names(study)
    tables = {
        **sections_rates.tables(found, study.kind, declared),
        **sections_detection.tables(found, results),
        **sections_raters.tables(found, raters, bool(filters), MIN_OVERLAP),
        **sections_agreement.tables(results, found.table, MIN_OVERLAP, verdict_words),
        **machine_tables,
        **sections_contrasts.tables(found, machines, conditions, names),
        **precision_tables,
    }
    if tables["contrasts"]["rows"] and (case_note := describe_cases(study)):
        tables["contrasts"]["notes"].append(case_note)
    stop = stopping.look(study)
    content: Json = _plain(
        {
            "version": VERSION,
            "subject": {"study": study.slug, "code": str(study.code), "name": study.name, "kind": study.kind},
            "made_with": made_with(),
            "seed": seed,
            "resamples": resamples,
            "full": resamples > 0,
            "filters": {"values": filters.to_json(), "said": filters.said},
            "data": {"sha256": found.sha256, "mark": mark, **found.table.n},
            "reference": {
                "name": found.table.reference_name,
                "description": REFERENCES[found.table.reference_name],
                "items": int((found.table.item_reference >= 0).sum()),
            },
            "composition": composition.of(study, found, raters),
            "interim": {"met": stop.met, "said": stop.said},
            "headline": headline.five(study, found, stop, tables, results, declared),
            "results": [row.to_json() for row in results],
            # In the order of FORMS, whatever order they were built in.
            "tables": {name: tables[name] for name in FORMS},
            "notes": notes(study, filters, found.table),
        }
    )
    return content


def notes(study: Study, filters: Filters, ratings: Ratings) -> list[str]:
    """Return what a reader of any of the numbers must know."""
    sentences = []
    if filters:
        sentences.append(f"{filters.said} All results below use these ratings only.")
    if ratings.reference_name != NO_TRUTH:  # evidence studies without a truth have no results on errors
        sentences.append(f"Reference for all results on errors: {REFERENCES[ratings.reference_name]}.")
    if missing := int((ratings.item_reference < 0).sum()) if ratings.reference_name not in NOT_STATED else 0:
        sentences.append(
            f"{missing:,} of {len(ratings.items):,} items have no reference: they enter rates and agreement, but no result on "
            "errors."
        )
    return sentences


def _plain(value: Any) -> Any:
    """Return the value without negative zeros."""
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float():
            # Databases do not store the sign of zero, so the stored document would have another digest.
            return float(value) + 0.0
        case _:
            return value
