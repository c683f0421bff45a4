"""Protocols with hidden steps offline: runs of a part of a protocol, its essential steps, masks, and two agents.

One agent fills the gaps; for the other, the first steps are done.
"""
