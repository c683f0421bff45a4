"""L05: what a container can hold, and which instrument it fits."""

from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import units, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import listed

# Nominal sizes are a little less than what goes in: a 500 mL bottle takes 550.
_NOMINAL = Decimal("1.15")


_SIZED = listed(
    "tube vial flask bottle beaker falcon eppendorf cuvette microtube cryovial cylinder jar microcentrifuge conical"
)


_FLAT = listed("plate microplate well dish slide flask chamber coverslip chip petri")


_NOT_FLAT = listed("tube vial bottle beaker falcon eppendorf bag cylinder conical cryovial microtube")


def containers(transition: Transition) -> Said:
    """L05: no more than the container holds, not less than it needs, and a format the instrument takes."""
    if not transition.success:
        return
    for output in transition.kept:
        yield from _overfull(transition, output)
    if transition.action in ("UsePlateReader", "UseMicroscope", "Thermocycler"):
        for view in transition.inputs:
            yield from _format(transition, view)


def _overfull(transition: Transition, output: View) -> Said:
    before = transition.before(output)
    explicit = output.capacity or (before.capacity if before else None)
    nominal = _nominal(output) or (_nominal(before) if before else None)
    if output.volume is None or (explicit is None and nominal is None):
        if output.volume is not None:
            yield undecided("L05", output.name, "how much its container holds is not known")
        return
    most = explicit.value if explicit else (nominal or Decimal(0)) * _NOMINAL
    yield Ran("L05", quantity=True)
    if output.volume.value > most * Decimal("1.005"):
        yield error("L05", output.name, f"at most {_show(most)}", _show(output.volume.value),
                    f"{output.name} holds {_show(output.volume.value)} in a container for {_show(most)}", "0.5 %")  # fmt: skip
    least = output.minimum
    if least is not None and 0 < output.volume.value < least.value and before is None:
        yield error("L05", output.name, f"at least {_show(least.value)}", _show(output.volume.value),
                    f"{output.name} holds less than its container needs, {_show(least.value)}")  # fmt: skip


def _nominal(view: View) -> Decimal | None:
    """The size in the container's name, "1.5 mL tube"; that of a plate or a box says nothing of one well."""
    said = set(words.cut(view.container))
    size = units.read(view.container, "", ("volume",))
    if size is None or size.dimension != "volume" or not said & _SIZED or said & {"box", "well", "plate", "rack"}:
        return None
    return size.value


def _format(transition: Transition, view: View) -> Said:
    if view.supply or any(view is other for other in transition.parameters.named.values()):
        return
    said = set(words.cut(view.container))
    if not said:
        yield undecided("L05", view.name, "what it is in is not known")
        return
    yield Ran("L05")
    text = f"{transition.action} does not take {view.name} in {view.container[:60]}"
    if (
        transition.action == "UsePlateReader"
        and not said & (_FLAT - {"flask", "dish", "slide", "petri"})
        and said & (_NOT_FLAT | {"flask", "dish", "cuvette"})
    ):
        yield error("L05", view.name, "a microplate", view.container[:60], text)
    elif transition.action == "UseMicroscope" and not said & _FLAT and said & _NOT_FLAT:
        yield error("L05", view.name, "a plate, dish, flask or slide", view.container[:60], text)
    elif transition.action == "Thermocycler" and not said & {"pcr", "plate", "well", "strip"}:
        size = _nominal(view)
        if size is not None and size >= 1500:
            yield error("L05", view.name, "a PCR tube or plate", view.container[:60], text)


def _show(volume: Decimal) -> str:
    return units.show(volume, "volume")
