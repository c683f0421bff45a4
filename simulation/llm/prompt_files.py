"""The files of prompt sets: three families, and the placeholders of each file."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

BUILT_IN, BUILT_IN_RATING, BUILT_IN_CODE = "wetbench", "wetbench-rating", "wetbench-code"
BUILT_IN_PROTOCOL = "wetbench-protocol"  # as BUILT_IN, for agents that are given a protocol with hidden steps
EXAMPLES = "examples.json"


class Placeholders(NamedTuple):
    """Placeholders of a file: `needed` must occur in it, `optional` may."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        return self.needed + self.optional


_STATE = Placeholders(("materials", "observations", "action"))
# The family for the roles of a simulation.
PLACEHOLDERS: Mapping[str, Placeholders] = MappingProxyType(
    {
        "agent.system.txt": Placeholders(("actions",)),
        "agent.user.txt": Placeholders(("goal", "history", "time", "materials", "notes"), ("protocol",)),
        "agent.plain.txt": Placeholders(),
        "agent.react.txt": Placeholders(),
        "agent.plan.txt": Placeholders(),
        "agent.act.txt": Placeholders(),
        "agent.summary.txt": Placeholders(("history",), ("goal",)),
        "agent.schema.txt": Placeholders(),
        "transition.system.txt": Placeholders(),
        "transition.user.txt": _STATE,
        "transition.repair.txt": Placeholders(("problems",)),
        "transition.schema.txt": Placeholders(),
        "incorrect.system.txt": Placeholders(),
        "incorrect.user.txt": _STATE,
        "obvious.system.txt": Placeholders(),
        "obvious.user.txt": _STATE,
        "classification.txt": Placeholders(("observation", "interpretation"), ("examples",)),
        "classification.repair.txt": Placeholders(("problems",)),
        "classification.schema.txt": Placeholders(),
        "summary.txt": Placeholders(("observation", "interpretation")),
        EXAMPLES: Placeholders(),
    }
)
# The family for model raters.
RATING: Mapping[str, Placeholders] = MappingProxyType(
    {
        "rating.plausibility.txt": Placeholders(("question", "guide")),
        "rating.sufficiency.txt": Placeholders(("question", "guide")),
        "rating.item.txt": Placeholders(("context", "item", "rows")),
        "rating.repair.txt": Placeholders(("problems",)),
    }
)
# The family for agents that edit code, and their helpers.
CODE: Mapping[str, Placeholders] = MappingProxyType(
    {
        "code.system.txt": Placeholders(("tools",)),
        "code.user.txt": Placeholders(("brief", "code", "history", "left", "notes")),
        "code.plain.txt": Placeholders(),
        "code.react.txt": Placeholders(),
        "code.structured.txt": Placeholders(),
        "code.plan.txt": Placeholders(),
        "code.act.txt": Placeholders(),
        "code.plan-status.txt": Placeholders(),
        "code.last.txt": Placeholders(),
        "code.summary.txt": Placeholders(("history",), ("brief",)),
        "code.helper.txt": Placeholders(),
        "code.edit.txt": Placeholders(("path", "text", "instruction")),
        "code.understand.txt": Placeholders(("path", "text", "question")),
        "code.fixed.txt": Placeholders(),
        "code.files.txt": Placeholders(("functions", "files")),
        "code.reason.txt": Placeholders(("functions", "passages", "code")),
        "code.infill.txt": Placeholders(("function", "passages", "code", "reasoning")),
    }
)
# The files of each family by the name of its built-in set. A set contains the files of one family.
FAMILIES: Mapping[str, Mapping[str, Placeholders]] = MappingProxyType(
    {BUILT_IN: PLACEHOLDERS, BUILT_IN_RATING: RATING, BUILT_IN_CODE: CODE}
)
ALL_FILES: Mapping[str, Placeholders] = MappingProxyType(
    {name: placeholders for files in FAMILIES.values() for name, placeholders in files.items()}
)
# Every built-in set, and the set from which it takes the files that its own folder lacks.
SHIPPED: Mapping[str, str] = MappingProxyType({**{name: name for name in FAMILIES}, BUILT_IN_PROTOCOL: BUILT_IN})
# Files that a set may lack, with the files whose texts they belong to. A folder that has its own version of one of those does
# not take the built-in text, which would contradict it: the texts printed in the paper have neither.
OPTIONAL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "incorrect.system.txt": ("incorrect.user.txt",),
        "agent.schema.txt": ("agent.system.txt",),
        "transition.schema.txt": ("transition.system.txt", "obvious.system.txt"),
        "classification.schema.txt": ("classification.txt",),
    }
)


def find_family(files: Collection[str]) -> str:
    """Return the family of a set with these files, as the name of its built-in set; that of a simulation if no file is known."""
    matches = (name for name in (BUILT_IN_RATING, BUILT_IN_CODE) if not FAMILIES[name].keys().isdisjoint(files))
    return next(matches, BUILT_IN)
