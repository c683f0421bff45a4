"""The columns of the ratings file, in its order, and what each means."""

from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "study": "short name of the study",
    "item": "code of the item; random, it says nothing of where the item came from; empty before unblinding if imported is 1",
    "pair": "shared by all versions of one thing: an original and its twins (sealed)",
    "rater": "the rater's code in this study",
    "verdict": "1 plausible or sufficient, 0 not; empty: the rater could not judge",
    "confidence": "1 to 5",
    "source": "who made the item (sealed)",
    "perturbation": "none, obvious or subtle: what was planted; empty: not stated by an import, or an evidence item (sealed)",
    "truth": "1 right, 0 wrong, where that is known: of rules and of imports that declare it; empty: not known (sealed)",
    "experiment": "the experiment the item is from (sealed)",
    "action": "the laboratory action (sealed)",
    "opened_at": "when the item was first shown, UTC",
    "submitted_at": "when it was first answered, UTC",
    "seconds": "between the two, by the server's clock; empty: not known",
    "position": "place in this rater's own order, counted from 1",
    "simulated": "1: a simulated rater, also one that was imported",
    "occasion": "1 counts; 2 is the same item shown again to the same rater, for test-retest alone",
    "session": "crossover studies: 1 or 2, with the washout between them; 1 in all other studies",
    "surplus": "1: answered after its place had gone to another rater; counts nowhere",
    "cannot_judge": "1: the rater could not judge; in no rate and no agreement",
    "layout": "display arm: plain, aligned, balance or confirm; empty: collected elsewhere",
    "layout_shown": "what was shown: plain where it was not certain which output goes on from which input",
    "context": "1: goal and earlier steps were shown",
    "marks": "whether rows could be ticked: off, if_not_plausible or always",
    "marked": "keys of the ticked rows, a JSON list",
    "localised": (
        "1: a ticked row holds the planted error; 0: none does, or the verdict was that nothing is wrong; "
        "empty: its place is not known, or no row could be ticked (sealed)"
    ),
    "first_verdict": "confirm arm: the verdict before the balance sheet was shown",
    "first_confidence": "confirm arm: the confidence before the balance sheet was shown",
    "revision": "how many versions of the answer there are; the last one stands here, versions.csv has all",
    "active_seconds": "seconds with the page visible and the rater active, by the browser",
    "first_verdict_seconds": "active seconds to the first choice of a verdict",
    "changes": "changes of mind before the first submission",
    "hand": "keys, pointer or both; empty: not known",
    "viewport": "width x height of the page in CSS pixels",
    "guide_version": "version of the instructions that the rater had read",
    "interface_version": "version of the rating screen; empty: collected elsewhere",
    "imported": "1: collected elsewhere and imported",
    "note": "the rater's own note; empty before unblinding",
    "counts": "1: the reports count it (occasion 1, not surplus, place not taken back); ratings of dropped raters are left out",
    "reference": (
        "what verdicts are compared with: planted or unperturbed, else declared wrong or declared right by an import; "
        "empty: not known (sealed)"
    ),
}
