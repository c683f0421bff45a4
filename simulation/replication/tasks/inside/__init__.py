"""Scripts that run inside sandboxes. They are sent in as text, import nothing of this project, and are never imported by it."""
