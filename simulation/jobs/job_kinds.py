"""The registry of job kinds: their titles for people, and their handlers.

A kind is declared with the module of its handler, which is imported when a job of the kind is first run. Every process
loads this module; web processes, which only request jobs, never load what the work needs.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from simulation.jobs.jobs import Work

Outcome = Mapping[str, Any]
Handler = Callable[["Work"], Outcome]


class DeclaredKind(NamedTuple):
    """A kind's title for people, and the module whose import registers its handler."""

    title: str
    module: str


_declared_kinds: dict[str, DeclaredKind] = {}
_handlers: dict[str, Handler] = {}


def declare_kind(kind: str, title: str, module: str) -> None:
    """Declare a kind without importing its module. Raise ValueError if another module has declared it."""
    declaration = DeclaredKind(title, module)
    if _declared_kinds.setdefault(kind, declaration) != declaration:
        raise ValueError(f"jobs of kind {kind!r} are declared twice")


def register_handler(kind: str) -> Callable[[Handler], Handler]:
    """Return a decorator that registers the handler of a declared kind."""

    def register_function(handler: Handler) -> Handler:
        if _handlers.setdefault(kind, handler) is not handler:
            raise ValueError(f"two handlers for jobs of kind {kind!r}")
        return handler

    return register_function


def find_handler(kind: str) -> Handler | None:
    """Return the handler of this kind, importing its module if necessary, or None if there is none."""
    if kind not in _handlers and kind in _declared_kinds:
        import_module(_declared_kinds[kind].module)
    return _handlers.get(kind)


def is_declared(kind: str) -> bool:
    """Return whether the kind is declared. Imports nothing."""
    return kind in _declared_kinds


def get_title(kind: str) -> str:
    """Return the kind's title for people. Imports nothing."""
    # A kind of a newer or older release may be in the database without being declared here.
    return _declared_kinds[kind].title if kind in _declared_kinds else _format_kind(kind)


def _format_kind(kind: str) -> str:
    return kind.replace("_", " ").capitalize()
