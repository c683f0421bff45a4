"""Check in sandboxes what must hold before masks of a task are used: `check_task` returns a `TaskProof`."""
