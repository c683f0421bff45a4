"""Which kinds of jobs there are, what people call them, and who does them. Light: it is loaded with every process.

A kind is declared with the module of its handler, which is imported when a job of it is first played: web processes,
which only ask for jobs, never load what the work needs.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from simulation.jobs.jobs import Work

Outcome = Mapping[str, Any]
Handler = Callable[["Work"], Outcome]


class Declared(NamedTuple):
    """A kind's name for people, and the module whose import registers its handler."""

    title: str
    module: str


_declared: dict[str, Declared] = {}
_handlers: dict[str, Handler] = {}


def declare(kind: str, title: str, module: str) -> None:
    """Make a kind known without importing anything. ValueError if it stands in another module already."""
    declared = Declared(title, module)
    if _declared.setdefault(kind, declared) != declared:
        raise ValueError(f"jobs of kind {kind!r} are declared twice")


def handles(kind: str) -> Callable[[Handler], Handler]:
    """Registers who does jobs of this kind, which is declared elsewhere."""

    def register(handler: Handler) -> Handler:
        if _handlers.setdefault(kind, handler) is not handler:
            raise ValueError(f"two handlers for jobs of kind {kind!r}")
        return handler

    return register


def handler(kind: str) -> Handler | None:
    """Who does jobs of this kind, imported if need be; None if nobody does."""
    if kind not in _handlers and kind in _declared:
        import_module(_declared[kind].module)
    return _handlers.get(kind)


def known(kind: str) -> bool:
    """Whether somebody does such jobs. Imports nothing."""
    return kind in _declared


def title(kind: str) -> str:
    """What people call jobs of this kind. Imports nothing."""
    return _declared[kind].title if kind in _declared else _plain(kind)


def _plain(kind: str) -> str:
    return kind.replace("_", " ").capitalize()
