"""The words for what a study document can say: a name and a sentence for each choice, in forms and on the study's page."""

from typing import NamedTuple


class Words(NamedTuple):
    """What a choice is called, and what it means for the study."""

    name: str
    why: str


WORDS: dict[str, dict[str, Words]] = {
    "kind": {
        "transition_plausibility": Words("Transition plausibility", "Raters see one step: could it have come out so?"),
        "evidence_sufficiency": Words("Evidence sufficiency", "Raters see a whole record: does it show that the goal was reached?"),
    },
    "vetting": {
        "rules": Words("The rules that planted them", "Errors planted by offline rules enter at once; a person accepts those a model wrote."),
        "person": Words("A person, every one", "No twin enters before somebody has accepted it in the vetting queue."),
    },
    "design": {
        "crossed": Words("Crossed", "Every rater rates every item. The strongest for comparing raters; the most work for each."),
        "balanced": Words("Balanced", "Each item goes to so many of the raters, chosen so that every two of them share about as many items."),
        "pool": Words("Pool", "Raters take the next item that still needs a rating, for as long as they like. For raters who come and go."),
        "crossover": Words("Crossover", "Every rater rates every item, in two sessions with a washout between them: each pair in one condition in session 1, in the other in session 2. For comparing two conditions within readers."),
    },
    "conditions": {
        "": Words("None", "The design is not a crossover."),
        "sources": Words("Two sources", "The same steps, simulated by two casts or with errors planted by two casts. Ask for the same numbers of both."),
        "twins": Words("Original and twin", "Each step as it was simulated, and with a planted error. Ask for as many twins as originals."),
        "screens": Words("Two screens", "Every item on each of two screens. Choose exactly two in the last step."),
    },
    "stop": {
        "complete": Words("Every item has its ratings", "The study is done when nothing is left to rate."),
        "ratings": Words("A number of ratings is reached", "Say below how many."),
        "deadline": Words("The deadline has passed", "Whatever is there on that evening is the result."),
    },
    "withdrawal": {
        "keep": Words("Keep what they rated", "Only what they have not rated goes to others."),
        "drop": Words("Drop what they rated", "Their ratings count nowhere, and all their items go to others."),
    },
    "layouts": {
        "plain": Words("Plain", "What went in and what came out, as two lists. Closest to the paper; the one to compare others with."),
        "aligned": Words("Aligned", "Each output beside the input it came from, changes tinted. Draws the eye to changes, less to what is missing."),
        "balance": Words("Aligned with balance", "Also the sums of volumes, amounts and cells. Does part of the rater's work for errors of amount."),
        "confirm": Words("Confirm", "A first verdict on aligned, then the balance, then the final one; both are kept. The fair way to measure an aid."),
    },
    "context": {
        "off": Words("Hidden", "The step by itself."),
        "on": Words("Shown", "The goal and the steps before. A known goal leans raters towards “it worked as hoped”."),
    },
    "marks": {
        "off": Words("Off", "A verdict and a confidence, nothing more."),
        "if_not_plausible": Words("If not plausible", "Whoever says not plausible ticks what looks wrong: did they find the error, or guess?"),
        "always": Words("Always", "Raters tick the row that looks weakest, whatever they decide. Changes the task."),
    },
    "by": {
        "rater": Words("Rater by rater", "One screen for all of a rater's items: quick to get used to, compared between people."),
        "item": Words("Item by item", "A rater meets every screen: compared within people, at the price of switching."),
    },
}  # fmt: skip
