"""Task folders as values, masks of their functions, workspaces, and runs of test cases in sandboxes."""
