"""Pages of replication tasks: the tasks, their masks, code episodes with steps, workspace and grading, and the form that starts a run of them.

Raters never see any of it. Reference values of a task are shown only on request, which is logged. Secret data sets are never named.
"""
