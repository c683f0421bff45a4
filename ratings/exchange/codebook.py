"""The columns of the ratings file, in order, and the meaning of each."""

from collections.abc import Mapping

# In the order of the columns in ratings.csv. Add new columns at the end: programs may rely on positions.
# Columns whose meaning ends in (sealed) are those of exports.SEALED.
COLUMN_MEANINGS: Mapping[str, str] = {
    "study": "short name of the study",
    "item": "code of the item; it is random and does not reveal where the item came from; empty before unblinding if imported is 1",
    "pair": "shared by all versions of one transition: an original and its twins (sealed)",
    "rater": "the rater's code in this study",
    "verdict": "1 plausible or sufficient, 0 not; empty: the rater could not judge",
    "confidence": "1 to 5",
    "source": "what generated the item (sealed)",
    "perturbation": "planted error: none, obvious or subtle; empty: not stated in an import, or an evidence item (sealed)",
    "truth": "1 correct, 0 wrong; known for rule-based items and for imports that declare it; empty: not known (sealed)",
    "experiment": "the experiment that the item comes from (sealed)",
    "action": "the laboratory action (sealed)",
    "opened_at": "time at which the item was first shown, UTC",
    "submitted_at": "time of the first answer, UTC",
    "seconds": "seconds between opened_at and submitted_at by the server's clock; empty: not known",
    "position": "position in this rater's own order, counted from 1",
    "simulated": "1: a simulated rater, including imported ones",
    "occasion": "1: counts; 2: the same item shown to the same rater again, used only for test-retest agreement",
    "session": "crossover studies: 1 or 2, separated by the washout; 1 in all other studies",
    "surplus": "1: submitted after the item had been reassigned to another rater; not counted",
    "cannot_judge": "1: the rater could not judge; excluded from rates and agreement",
    "layout": "display arm: plain, aligned, balance or confirm; empty: rating collected elsewhere",
    "layout_shown": "layout that was shown: plain if it was unclear which output continues which input",
    "context": "1: the goal and earlier steps were shown",
    "marks": "whether the rater could mark rows: off, if_not_plausible or always",
    "marked": "keys of the marked rows, a JSON list",
    "localised": (
        "1: a marked row contains the planted error; 0: no marked row does, or the verdict was that nothing is wrong; "
        "empty: the location of the error is not known, or rows could not be marked (sealed)"
    ),
    "first_verdict": "confirm arm: the verdict before the balance sheet was shown",
    "first_confidence": "confirm arm: the confidence before the balance sheet was shown",
    "revision": "number of versions of the answer; this row shows the last one, versions.csv lists all",
    "active_seconds": "seconds during which the page was visible and the rater active, measured by the browser",
    "first_verdict_seconds": "active seconds until the first choice of a verdict",
    "changes": "number of changes of the verdict before the first submission",
    "hand": "input used: keys, pointer or both; empty: not known",
    "viewport": "page width x height in CSS pixels",
    "guide_version": "version of the instructions that the rater had read",
    "interface_version": "version of the rating screen; empty: rating collected elsewhere",
    "imported": "1: collected elsewhere and imported",
    "note": "the rater's note; empty before unblinding",
    "counts": "1: included in the results (occasion 1, not surplus, not reassigned); ratings of dropped raters are not in this file",
    "reference": (
        "what verdicts are compared with: planted or unperturbed, otherwise declared wrong or declared right by an import; "
        "empty: not known (sealed)"
    ),
}
