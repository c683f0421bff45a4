"""Calls of language models: logged before they are sent, completed when the answer arrives, and never sent twice.

`journal` answers a repeated call from the log. `ledger` reserves the worst-case cost before a request leaves. `gates`
limits how many calls of one key are under way. `spending` sums what runs have used.

May import: simulation.casts, simulation.leases, simulation.models, simulation.providers, wetbench_site.
"""

from simulation.calls.journal import Dial, Line, dial

__all__ = ["Dial", "Line", "dial"]
