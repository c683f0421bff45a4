"""A local server that imitates the provider APIs, plays every role, and returns the faults that a rule asks for.

As a command: `python -m simulation.scripted_server --port 8765`; in code: `with running() as server`.

May import: nothing else of ours.
"""

from simulation.scripted_server.rules import FAULTS, Rule
from simulation.scripted_server.running import Server, running, spawned

__all__ = ["FAULTS", "Rule", "Server", "running", "spawned"]
