"""The handlers: the functions that carry out actions. Each is declared once, by `@handles` with its name in the action files."""

from importlib import import_module
from pkgutil import iter_modules

from simulation.offline.action_context import HANDLERS, describe_missing_part

__all__ = ["HANDLERS", "describe_missing_part"]

# Importing a module declares its handlers.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
