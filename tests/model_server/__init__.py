"""A local stand-in for the model providers: speaks their wire protocols, plays every role, and misbehaves on demand.

Imports nothing of the project. As a command: `python tests/model_server --port 8765`; in a test: `with running() as server`.
"""

from .rules import FAULTS, Rule
from .running import Server, running, spawned

__all__ = ["FAULTS", "Rule", "Server", "running", "spawned"]
