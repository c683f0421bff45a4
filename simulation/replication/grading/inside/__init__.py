"""Scripts that run inside sandboxes, on hostile text or together with hostile code. They import only the standard library and each other.

The host reads them as text and sends them in under /input, with their folders, so that their imports work there. It never calls them.

Without Django.
"""
