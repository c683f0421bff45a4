"""Task folders: reading them, masking functions, building workspaces, and the proof that a task is sound."""
