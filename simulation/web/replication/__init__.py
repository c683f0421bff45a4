"""Pages of replication tasks: the tasks, their masks, code episodes with steps, workspace and grading, and the form that orders them.

Raters never see any of it. Reference numbers of a task are shown only after a logged press. Secret data sets are never named.
"""
