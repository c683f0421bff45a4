"""A small study for tests of the rater's pages: hand-written records, blinded and planned as real ones are stored."""

import uuid
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.blinding import allow_list
from ratings.models import EVIDENCE, TRANSITION, Assignment, GuideVersion, Item, Rater, RaterProfile, Rating, Study
from ratings.studies.item_counts import update_item_counts
from simulation.lab.actions import Action
from simulation.lab.materials import NOT_AVAILABLE, UNLIMITED, Material, NewMaterial
from simulation.lab.outcomes import Observation, Outcome

COFFEE, WATER, VIAL = "MAT-COFFEE01", "MAT-WATER001", "MAT-VIAL0001"


def build_bench_material(
    barcode: str, name: str, available: str = "available_for_further_use", **properties: str
) -> Material:
    return Material(barcode, name, properties, available, "static", "room_temp", 0, 0)


BENCH = [
    build_bench_material(
        COFFEE,
        "Brewed coffee, commercial",
        phase="liquid",
        volume="50 mL",
        appearance="dark brown, slightly cloudy",
        container="100 mL glass bottle",
        container_capacity="100 mL",
    ),
    build_bench_material(
        WATER, "HPLC-grade water", UNLIMITED, phase="liquid", volume="1 L", container="1 L bottle", purity="HPLC grade"
    ),
    build_bench_material(VIAL, "Empty vial", phase="none", container="2 mL glass vial", container_capacity="2 mL"),
]


def build_dilution(microlitres: int) -> dict[str, Any]:
    """Return an accepted step that puts coffee and water into the vial. Each amount gives a different item."""
    remaining = f"{50 - microlitres / 1000:g} mL"
    action = Action(
        "Dilute", (COFFEE, WATER, VIAL), {"volume": f"{microlitres} µL", "final_volume": "1 mL", "mix": True}
    )
    outcome = Outcome(
        success=True,
        new_materials=(
            NewMaterial(BENCH[0].name, {**BENCH[0].properties, "volume": remaining}, replaces=COFFEE),
            NewMaterial(
                f"Coffee, {microlitres} µL in 1 mL",
                {
                    "phase": "liquid",
                    "volume": "1 mL",
                    "appearance": "pale brown, clear",
                    "container": "2 mL glass vial",
                },
                derived_from=(COFFEE, WATER),
            ),
        ),
        new_observations=(
            Observation("The mixture is clear and evenly coloured after inversion.", "visual"),
            Observation("Volume in the vial, read at the graduation", "quantitative", "1 mL"),
        ),
        reasoning="SECRET: never shown",
    )
    return build_step(action, outcome)


def build_aliquots() -> dict[str, Any]:
    """Return a step that makes six vials which differ only in their contents: shown as one table."""
    vials = tuple(
        NewMaterial(
            f"Coffee for caffeine analysis, replicate {number}",
            {
                "phase": "liquid",
                "volume": f"{number} mL",
                "appearance": f"brown, dilution {number}",
                "caffeine_concentration": f"{number * 10} µg/mL",
                "container": f"{number + 1} mL glass vial with screw cap",
                "container_capacity": f"{number + 1} mL",
            },
            derived_from=(COFFEE,),
        )
        for number in range(1, 7)
    )
    observations = tuple(Observation(f"Vial {number} is filled", "visual") for number in range(1, 8))
    return build_step(Action("Aliquot", (COFFEE,), {"count": 6}), Outcome(True, vials, observations), number=9)


def build_rejection() -> dict[str, Any]:
    action = Action("Centrifuge", (VIAL,), {"force": "12000 x g", "duration": "5 min"})
    return build_step(action, Outcome.make_rejected("The vial is empty; there is nothing to spin"))


def build_step(action: Action, outcome: Outcome, number: int = 1) -> dict[str, Any]:
    inputs = [m for m in BENCH if m.barcode in action.materials]
    new_materials = outcome.new_materials
    return {
        "number": number,
        "started_at": 600 * number,
        "inputs": [m.to_visible() for m in inputs],
        "action": action.to_json(),
        "outcome": outcome.to_json(),
        "barcodes": [draft.replaces or f"MAT-NEW{number:04}{index}" for index, draft in enumerate(new_materials)],
    }


def build_transition_payloads(count: int) -> list[dict[str, Any]]:
    """Return `count` different payloads (at least 3), with a large step and a rejected action last."""
    steps = [build_dilution(50 * (number + 1)) for number in range(count - 2)] + [build_aliquots(), build_rejection()]
    return [allow_list.blind_transition(s) for s in steps]


def build_evidence_payloads(count: int) -> list[dict[str, Any]]:
    """Return `count` records, each one step longer than the one before. The first is empty, the others begin with a large step."""
    goal = "Find out how much caffeine (mg/mL) there is in the coffee."
    steps = [build_aliquots() | {"number": 1}]
    steps += [build_dilution(50 * number) | {"number": number + 1} for number in range(1, count)]
    return [allow_list.blind_evidence(goal, steps[:number]) for number in range(count)]


def create_open_study(
    kind: str = TRANSITION,
    items: int = 5,
    raters: int = 2,
    layout: str = "aligned",
    marks: str = "off",
    with_context: bool = False,
    begun: bool = True,
    **protocol: Any,
) -> Study:
    """Create an open study in which every rater rates every item, all in the same order and on one arm.

    The raters have consented, read the guide and practised (with `begun=False` they have only consented).
    Further keyword arguments go into the study document.
    """
    number = Study.objects.count() + 1
    document = _build_document(kind, number, raters, protocol)
    study = Study.objects.create(
        slug=document["slug"],
        name=document["name"],
        kind=kind,
        question=document["question"],
        protocol=document,
        seed=1,
        ratings_per_item=raters,
        status="open",
        opened_at=timezone.now(),
    )
    GuideVersion.objects.create(study=study, number=1, text="")
    created_items = _create_items(
        study, build_evidence_payloads(items) if kind == EVIDENCE else build_transition_payloads(items)
    )
    for number in range(1, raters + 1):
        rater = create_rater(study, number, begun)
        for position, item in enumerate(created_items, start=1):
            Assignment.objects.create(
                item=item, rater=rater, position=position, pair=item.code, slot=number,
                layout=layout, with_context=with_context, marks=marks,
            )  # fmt: skip
    update_item_counts(study.raters.all())
    return study


def store_rating(assignment: Assignment, **columns: Any) -> Rating:
    """Create a rating as a row, without its version in the log."""
    now = timezone.now()
    times = {"opened_at": now, "submitted_at": now, "seconds": 30, "submission_id": uuid.uuid4()}
    rating = Rating.objects.create(assignment=assignment, **{**times, **columns})
    Assignment.objects.filter(pk=assignment.pk).update(answered_at=rating.submitted_at)
    update_item_counts(Rater.objects.filter(pk=assignment.rater_id))
    return rating


def create_rater(study: Study, number: int, begun: bool = True) -> Rater:
    """Create a rater who is about to rate; with `begun` false, about to read the guide."""
    now = timezone.now()
    user = User.objects.create(username=f"{study.slug}-rater-{number}")
    user.set_unusable_password()
    user.save(update_fields=["password"])
    RaterProfile.objects.create(user=user, degree="PhD", field="cell biology", years=7, answered_at=now)
    progress = {"guide_seen": study.guide_version, "practised_at": now, "started_at": now} if begun else {}
    return Rater.objects.create(
        study=study, user=user, number=number, label=f"R{number:02}", invited_at=now, consented_at=now, **progress
    )


def create_link(rater: Rater) -> str:
    """Return the address of a new personal link."""
    assert rater.user is not None
    return f"/r/{signing_in.create_link(rater.user, 'rater')}/"


def get_assignment(rater: Rater, position: int = 1) -> Assignment:
    return rater.assignments.get(position=position)


def list_answers(rater: Rater) -> list[tuple[bool | None, int | None]]:
    """Return verdict and confidence of all ratings of this rater, in the order of the items."""
    ratings = Rating.objects.filter(assignment__rater=rater).order_by("assignment__position")
    return list(ratings.values_list("verdict", "confidence"))


def _build_document(kind: str, number: int, raters: int, changes: dict[str, Any]) -> dict[str, Any]:
    is_transition = kind == TRANSITION
    question = "Given these materials and this action, is the outcome plausible?"
    return {
        "name": "Coffee study, round 1" if is_transition else "Coffee evidence",
        "slug": f"study-{number}",
        "kind": kind,
        "question": question if is_transition else "Does this record suffice for the goal?",
        "sources": [{"cast": "offline", "perturbation": "none", "count": 1}],
        "ratings_per_item": raters,
        "practice": 0,
        "seed": 1,
        **changes,
    }


def _create_items(study: Study, payloads: list[dict[str, Any]]) -> list[Item]:
    now = timezone.now()
    context = {"goal": "Find out how much caffeine there is in the coffee.", "steps": [], "time": ""}
    return [
        Item.objects.create(
            study=study,
            payload=p,
            payload_sha256=allow_list.payload_digest(p),
            pair_sha256=allow_list.pair_digest(p),
            context=context,
            context_sha256=allow_list.payload_digest(context),
            created_at=now,
        )
        for p in payloads
    ]


def build_filtration() -> dict[str, Any]:
    """Return a step after which one material is gone and another must not be used again."""
    action = Action("Filter", (COFFEE, VIAL), {"pore_size": "0.45 µm"})
    filtrate = NewMaterial(
        "Filtered coffee", {"phase": "liquid", "volume": "48 mL"}, available_for_use=NOT_AVAILABLE, replaces=VIAL
    )
    return build_step(action, Outcome(success=True, new_materials=(filtrate,)))


WELLS = [
    build_bench_material(
        f"MAT-WELL000{n}", f"Well {n}", medium=f"growth medium {n}", virus=f"{n} µL", serum=f"{n} %", volume=f"{n} mL"
    )
    for n in range(1, 5)
]


def build_change_of_medium() -> dict[str, Any]:
    """Return a step in which four properties of four wells change to different values: a table wider than any phone."""
    new_materials = tuple(
        NewMaterial(
            well.name,
            {name: f"{value} and some more" for name, value in well.properties.items()},
            replaces=well.barcode,
        )
        for well in WELLS
    )
    action = Action("Wash", tuple(well.barcode for well in WELLS), {"wash_volume": "1 mL"})
    return build_step(action, Outcome(True, new_materials)) | {"inputs": [well.to_visible() for well in WELLS]}
