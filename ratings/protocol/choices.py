"""Name and explanation of each choice in a study document, for forms and for the study's page."""

from typing import NamedTuple


class Choice(NamedTuple):
    """The name of a choice, and what it means for the study."""

    name: str
    explanation: str


CHOICES: dict[str, dict[str, Choice]] = {
    "kind": {
        "transition_plausibility": Choice("Transition plausibility", "Raters see one step: could it have had this outcome?"),
        "evidence_sufficiency": Choice("Evidence sufficiency", "Raters see a full record: does it show that the goal was reached?"),
    },
    "vetting": {
        "rules": Choice("Rules, for their own errors", "Errors planted by offline rules are accepted automatically; a person vets those created by a model."),
        "person": Choice("A person, for every twin", "No twin is used before a person has accepted it in the vetting queue."),
    },
    "design": {
        "crossed": Choice("Crossed", "Every rater rates every item. Best for comparing raters; the most work for each."),
        "balanced": Choice("Balanced", "Each item is rated by a fixed number of raters; every pair of raters shares roughly the same number of items."),
        "pool": Choice("Pool", "Raters take the next item that still needs a rating, for as long as they like. For when raters come and go."),
        "crossover": Choice("Crossover", "Every rater rates every item, in two sessions with a washout between them: each pair in one condition in session 1, in the other in session 2. For comparing two conditions within raters."),
    },
    "conditions": {
        "": Choice("None", "The design is not a crossover."),
        "sources": Choice("Two sources", "The same steps, simulated by two casts or with errors planted by two casts. Request the same numbers from both."),
        "twins": Choice("Original and twin", "Each step as it was simulated, and with a planted error. Request as many twins as originals."),
        "screens": Choice("Two screens", "Every item on each of two screens. Choose exactly two in the last step."),
    },
    "stop": {
        "complete": Choice("Every item has its ratings", "The study is complete when nothing is left to rate."),
        "ratings": Choice("A number of ratings is reached", "Enter the number below."),
        "deadline": Choice("The deadline has passed", "Collection ends on this date; results use the ratings received by then."),
    },
    "withdrawal": {
        "keep": Choice("Keep what they rated", "Only items they have not rated are reassigned."),
        "drop": Choice("Drop what they rated", "Their ratings are not counted, and all their items are reassigned."),
    },
    "layouts": {
        "plain": Choice("Plain", "Inputs and outputs as two lists. Closest to the paper; the baseline for comparisons."),
        "aligned": Choice("Aligned", "Each output beside the input it came from, changes tinted. Draws attention to changes, less to what is missing."),
        "balance": Choice("Aligned with balance", "Also the sums of volumes, amounts and cells. Does part of the rater's work for errors of amount."),
        "confirm": Choice("Confirm", "A first verdict on aligned, then the balance, then the final verdict; both are stored. The fair way to measure an aid."),
    },
    "context": {
        "off": Choice("Hidden", "The step by itself."),
        "on": Choice("Shown", "The goal and the previous steps. A known goal leans raters towards “it worked as hoped”."),
    },
    "marks": {
        "off": Choice("Off", "A verdict and a confidence, nothing more."),
        "if_not_plausible": Choice("If not plausible", "Raters who answer not plausible tick what looks wrong: did they find the error, or guess?"),
        "always": Choice("Always", "Raters tick the row that looks weakest, whatever they decide. Changes the task."),
    },
    "by": {
        "rater": Choice("Rater by rater", "One screen for all of a rater's items: quick to get used to, compared between people."),
        "item": Choice("Item by item", "A rater sees every screen: compared within people, at the price of switching."),
    },
}  # fmt: skip
