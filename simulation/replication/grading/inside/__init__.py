"""Scripts that run inside sandboxes, on hostile text or beside hostile code. They import the standard library and each other alone.

The host reads them as text and sends them in under /input, with their folders, so that their imports work there. It never calls them.

Without Django.
"""
