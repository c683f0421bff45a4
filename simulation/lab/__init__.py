"""The pure core of the laboratory: materials, actions, quantities, the bench, and the rules they follow.

An experiment, its action catalogue, its rubric and one episode are plain values here. The roles of an
episode are protocols (`roles`): an agent, a transition model, an evidence classifier. Nothing here uses a database, a
clock or a network; files are read only from a path that the caller gives. `environment` has the interfaces for
learning agents (Gymnasium, tools, chat messages), `truths` the draws of hidden truths.

May import: nothing else of ours.

Without Django.
"""
