"""The scripted server of simulation/scripted_server with what tests need: faults, checks of requests, counters.

As a command: `python -m tests.support.model_server --port 8765`; in code: `with run_in_thread() as server`.
"""

from tests.support.model_server.rules import FAULTS, Rule
from tests.support.model_server.start import Server, run_in_process, run_in_thread

__all__ = ["FAULTS", "Rule", "Server", "run_in_process", "run_in_thread"]
