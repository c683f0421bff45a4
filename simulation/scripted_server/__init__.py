"""A local stand-in for the model providers: speaks their wire protocols, plays every role, and misbehaves on demand.

As a command: `python -m simulation.scripted_server --port 8765`; in code: `with running() as server`.

May import: nothing else of ours.
"""

from simulation.scripted_server.rules import FAULTS, Rule
from simulation.scripted_server.running import Server, running, spawned

__all__ = ["FAULTS", "Rule", "Server", "running", "spawned"]
