"""The analysis of a study as one JSON document. The same ratings, in any order, give the same bytes."""

from typing import Any

from ratings.models import ItemSource, Study
from ratings.results.analyses import (
    key_numbers,
    sections_contrasts,
    sections_machines,
    sections_raters,
    sections_rates,
    sections_sizes,
)
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.rating_columns import AnalysisData, load_analysis_data
from ratings.results.analyses.store import VERSION, ReportProgress, ignore_progress, list_versions
from ratings.results.analyses.tables import TABLE_SPECS, Json, check_builders
from ratings.results.paper_values import find_declared_models
from ratings.stats import summary
from ratings.stats.ratings_table import MISSING_REFERENCE_REASONS, NO_TRUTH, REFERENCES, Ratings
from ratings.studies import progress
from ratings.studies.designs import describe_cases, load_condition_names, load_conditions_by_code
from simulation.casts.run_config import RULE_BASED_CASTS

check_builders()  # the modules imported above build every table
STEPS = 5  # steps of the progress bar
RULE_BASED_ERRORS = "The errors of this study were planted by rules: its results on errors test the instrument (items, screens, raters and statistics), not a language model."
MIN_OVERLAP = 20  # least number of shared items with which a pair's kappa enters a mean


def build_document(
    study: Study,
    filters: Filters,
    state_digest: str,
    *,
    seed: int = 0,
    resamples: int = 2000,
    tell: ReportProgress = ignore_progress,
) -> Json:
    """Return the analysis document of the ratings that pass the filters.

    If `resamples` is 0, numbers whose interval needs resampling have no interval. Raises SealedError before the study is
    unblinded.
    """
    tell(0, STEPS, "Loading the ratings")
    data = load_analysis_data(study, filters)
    return assemble_document(study, filters, state_digest, data, seed=seed, resamples=resamples, tell=tell)


def assemble_document(
    study: Study,
    filters: Filters,
    state_digest: str,
    data: AnalysisData,
    *,
    seed: int,
    resamples: int,
    tell: ReportProgress = ignore_progress,
) -> Json:
    """Return the analysis document of the ratings in `data`."""
    tell(1, STEPS, "Rates, agreement and detection with their intervals")
    results = summary.compute_summary(data.table, data.repeats, seed=seed, resamples=resamples, min_overlap=MIN_OVERLAP)
    results += sections_raters.compute_localisation(data)
    tell(2, STEPS, "Raters and machines")
    machines = sections_machines.find_machines(study, data)
    machine_tables = sections_machines.build_machine_tables(data, machines, MIN_OVERLAP, seed, resamples)
    tell(3, STEPS, "Expected precision with more data")
    precision_tables = sections_rates.build_precision_tables(data)
    tell(4, STEPS, "Tables")
    verdict_words = {verdict: label.lower() for verdict, label in zip((1, 0), study.answer_labels, strict=True)}
    raters, declared = sections_raters.list_raters(study), find_declared_models(study)
    conditions, names = load_conditions_by_code(study), load_condition_names(study)
    tables = {
        **sections_rates.build_rate_tables(data, study.kind, declared),
        **sections_raters.build_detection_tables(data, results),
        **sections_raters.build_rater_tables(data, raters, bool(filters), MIN_OVERLAP),
        **sections_rates.build_agreement_tables(results, data.table, MIN_OVERLAP, verdict_words),
        **machine_tables,
        **sections_sizes.build_size_table(data, machines),
        **sections_contrasts.build_contrast_tables(data, machines, conditions, names),
        **precision_tables,
    }
    if tables["contrasts"]["rows"] and (case_note := describe_cases(study)):
        tables["contrasts"]["notes"].append(case_note)
    stop = progress.evaluate_stop_rule(study)
    reference = data.table.reference_name
    content: Json = _normalise_zeros({
        "version": VERSION,
        "subject": {"study": study.slug, "code": str(study.code), "name": study.name, "kind": study.kind},
        "made_with": list_versions(),
        "seed": seed,
        "resamples": resamples,
        "full": resamples > 0,
        "filters": {"values": filters.to_dict(), "said": filters.description},
        "data": {"sha256": data.sha256, "mark": state_digest, **data.table.sample_sizes},
        "reference": {
            "name": reference,
            "description": REFERENCES[reference],
            "items": int((data.table.item_reference >= 0).sum()),
        },
        "composition": key_numbers.build_composition(study, data, raters),
        "interim": {"met": stop.met, "said": stop.said},
        "headline": key_numbers.build_key_numbers(study, data, stop, tables, results, declared),
        "results": [row.to_dict() for row in results],
        # The tables have the order of TABLE_SPECS, regardless of the order in which they were built.
        "tables": {name: tables[name] for name in TABLE_SPECS},
        "notes": [*list_notes(filters, data.table), *describe_rule_based_errors(study)],
    })  # fmt: skip
    return content


def list_notes(filters: Filters, ratings: Ratings) -> list[str]:
    """Return the sentences that apply to all results: the active filters, the reference, and items without a reference."""
    name, sentences = ratings.reference_name, []
    if filters:
        sentences.append(f"{filters.description} All results below use these ratings only.")
    if name != NO_TRUTH:  # evidence studies without a truth have no results on errors
        sentences.append(f"Reference for all results on errors: {REFERENCES[name]}.")
    missing = int((ratings.item_reference < 0).sum())
    if missing and name not in MISSING_REFERENCE_REASONS:
        sentences.append(
            f"{missing:,} of {len(ratings.items):,} items have no reference: they enter rates and agreement, but no result on "
            "errors."
        )
    return sentences


def describe_rule_based_errors(study: Study) -> list[str]:
    """Return the sentence on what errors planted by rules can show; [] if a language model planted all of them."""
    planted = ItemSource.objects.filter(item__study=study, twin__cast__in=RULE_BASED_CASTS)
    return [RULE_BASED_ERRORS] if planted.exclude(perturbation="none").exists() else []


def _normalise_zeros(value: Any) -> Any:
    """Return the value without negative zeros."""
    match value:
        case dict():
            return {name: _normalise_zeros(item) for name, item in value.items()}
        case list() | tuple():
            return [_normalise_zeros(item) for item in value]
        case float():
            # Databases do not store the sign of zero, so the digest of a stored document with -0.0 would change.
            return float(value) + 0.0
        case _:
            return value
