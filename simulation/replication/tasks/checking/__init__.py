"""What must hold before masks of a task are used, measured in sandboxes: `check_task` returns a `TaskProof`."""
