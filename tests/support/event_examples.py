"""Example content of every kind of event in a study's log, each with its sentence."""

from ratings.models import study_events as events
from ratings.models.study_events import Content

EXAMPLES: list[tuple[Content, str]] = [
    (events.Created(), ""),
    (events.Edited(part="raters"), "raters"),
    (events.Duplicated(source="small-study"), "from small-study"),
    (events.Opened(items=2000, raters=1), "2,000 items, 1 rater"),
    (
        events.Opened(items=4, raters=2, left_out=1, shown=2, identical_cases=6, cases=10),
        "4 items, 2 raters; 1 item of unblinded studies left out; 2 items of episodes that are part of unblinded studies; "
        "6 of 10 cases left out, on which both sources gave the identical outcome; what is compared are cases on which "
        "they differ",
    ),
    (events.Paused(), ""),
    (events.Resumed(), ""),
    (events.Closed(), ""),
    (events.Reopened(), ""),
    (events.Reopened(dealt=6), "6 items assigned"),
    (events.Reopened(left=1), "1 item unassigned until another rater is added"),
    (events.Reopened(dealt=1, left=2), "1 item assigned; 2 items unassigned until another rater is added"),
    (events.Unblinded(), ""),
    (events.GuideRevised(version=2), "version 2"),
    (events.Invited(rater="R01"), "R01"),
    (events.Invited(rater="R01", step="sign_in_again"), "R01, to sign in again"),
    (events.Invited(rater="R01", step="revoked"), "R01, revoked"),
    (events.Reminded(raters=1), "1 rater"),
    (events.Joined(rater="R02"), "R02"),
    (events.Withdrawn(rater="R01", dropped=True, dealt=1), "R01, ratings discarded; 1 item reassigned to others"),
    (
        events.Withdrawn(rater="R01", dropped=False, dealt=1200, left=2),
        "R01, ratings kept; 1,200 items reassigned to others; 2 items unassigned until another rater is added",
    ),
    (events.Erased(rater="R03"), "R03"),
    (events.Simulated(raters=("R01", "R02"), seed=7), "R01, R02, seed 7"),
    (events.RatersAdded(added=("R05", "R06"), items=12), "R05, R06 added, with 12 items"),
    (events.RatersReplanned(free=3, raters=5), "open rater places: 3 became 5"),
    (events.ItemsAdded(items=1), "1 item"),
    (events.ItemsAdded(items=5, left=3), "5 items; 3 items unassigned until another rater is added"),
    (events.ItemsImported(items=2, sources=("Author", "gpt-9")), "2 items: Author, gpt-9"),
    (events.ImportsRemoved(removed=3), "all 3 removed"),
    (events.RatingsImported(ratings=3, raters=1), "3 ratings by 1 rater"),
    (
        events.QuarantineDecided(decision="released", digest="0123456789ab", reason="the word “model”"),
        "released 0123456789ab: the word “model”",
    ),
    (events.QuarantineDecided(decision="dropped", digest="0123456789ab"), "dropped 0123456789ab: no reason given"),
    (
        events.QuarantineDecided(
            decision="released",
            digest="0123456789ab",
            reason="the name of a model: “gemini”",
            things=(("gemini", "an HPLC column"), ("opus", "a piece, of music")),
        ),
        "released 0123456789ab: the name of a model: “gemini”; declared as things in the laboratory: “gemini”, an HPLC "
        "column; “opus”, a piece, of music",
    ),
    (events.Audited(passed=True), "blinding audit passed"),
    (events.Audited(passed=False), "blinding audit failed: leaks found"),
    (
        events.InterimLook(ratings=10, planned=40, shown=1, sources=2),
        "at 10 of 40 planned ratings: 1 of 2 sources shown",
    ),
    (events.InterimLook(ratings=0, planned=0, shown=0, sources=2), "before the first snapshot: 0 of 2 sources shown"),
    (
        events.InterimLookBySource(shown=1, sources=2, least=10),
        "interim analysis: 1 of 2 sources with at least 10 ratings",
    ),
    (events.TableExported(blinded=True), "blinded"),
    (
        events.TableExported(blinded=False, filters_text="Only planted error: no planted error; rater: R01"),
        "with sources. Only planted error: no planted error; rater: R01",
    ),
    (
        events.ArchiveExported(blinded=True, sha256="ab" * 32),
        f"archive, blinded, SHA-256 {'ab' * 32}",
    ),
    (events.ArchiveExported(blinded=False, sha256=""), "archive, with sources, SHA-256 "),
    (
        events.ArchiveExported(blinded=False, sha256="cd" * 32, of="SHA256SUMS"),
        f"archive, with sources, SHA-256 {'cd' * 32} of SHA256SUMS",
    ),
    (events.ApiExported(blinded=True, token="my, notebook"), "blinded, by API token my, notebook"),
    (
        events.MachineOrdered(rater="M1", name="a: b, 2", items=5, with_context=False),
        "M1, a: b, 2: 5 items to rate, payload alone",
    ),
    (
        events.MachineOrdered(rater="M1", name="a", items=1, with_context=True),
        "M1, a: 1 items to rate, payload and context",
    ),
    (events.MachineRated(rater="M1", name="a", rated=5, items=5), "M1, a: 5 of 5 items rated"),
    (
        events.MachineRated(rater="M1", name="a", rated=2, items=5, failed={"cannot_judge": 1, "unavailable": 2}),
        "M1, a: 2 of 5 items rated, 1 cannot judge, 2 unavailable",
    ),
    (events.ItemsTakenBack(items=1), "1 item not assigned to raters who can see them elsewhere"),
    (
        events.ItemsTakenBack(items=3, incomplete=1, left=2),
        "3 items not assigned to raters who can see them elsewhere; 1 case of the crossover left incomplete; 2 items unassigned until another rater is added",
    ),
    (
        events.ItemsTakenBack(items=3, rater="R01"),
        "R01, who can see 3 items in another study or in the laboratory: not assigned to them",
    ),
    (events.ItemsTakenBack(left=2), "2 items unassigned until another rater is added"),
    (events.PublicPageChanged(change="text"), "text changed"),
    (events.PublicPageChanged(change="on"), "turned on"),
    (events.PublicPageChanged(change="off"), "turned off"),
    (events.PublicPageChanged(change="link"), "new link; the old one no longer works"),
]

# What earlier releases wrote instead and stored. The migration still has to parse it.
_EARLIER_WORDS = (
    ("episodes that are part of unblinded studies", "episodes that stand in unblinded studies"),
    ("6 items assigned", "6 places dealt"),
    ("1 item assigned", "1 place dealt"),
    ("1 item unassigned until another rater is added", "1 place left until another seat is added"),
    ("2 items unassigned until another rater is added", "2 places left until another seat is added"),
    ("3 items unassigned until another rater is added", "3 places left until another seat is added"),
    ("R01, revoked", "R01, taken back"),
    ("ratings discarded; 1 item reassigned to others", "ratings dropped; 1 place dealt to others"),
    ("1,200 items reassigned to others", "1,200 places dealt to others"),
    ("open rater places: 3 became 5", "3 free seats became 5"),
    ("no reason given", "no reason left"),
    ("declared as things in the laboratory", "declared things in the laboratory"),
    ("blinding audit passed", "blinding holds"),
    ("blinding audit failed: leaks found", "blinding LEAKS"),
    (
        "interim analysis: 1 of 2 sources with at least 10 ratings",
        "interim look: 1 of 2 sources with 10 ratings or more",
    ),
    ("not assigned to raters who can see them elsewhere", "not dealt to raters who can read them elsewhere"),
    ("1 case of the crossover left incomplete", "1 case of the crossover incomplete"),
    (
        "who can see 3 items in another study or in the laboratory: not assigned to them",
        "who can read 3 items in another study or in the laboratory: not dealt to them",
    ),
)


def write_as_earlier_release(sentence: str) -> str:
    """Return a sentence of EXAMPLES as releases before study_event_data stored it."""
    for current, earlier in _EARLIER_WORDS:
        sentence = sentence.replace(current, earlier)
    return sentence
