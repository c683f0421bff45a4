"""Scripts and modules that run inside sandboxes. They are sent in as text, and are never imported by this project."""
