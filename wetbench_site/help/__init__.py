"""Help inside the application: the documents of `docs/` as pages, a search in them, and the terms of the glossary.

The files are read when they are first needed and kept until the process ends. They are our own, and still treated as data:
HTML in them is shown as text. `ratings.web.help_pages` decides who may read them.

May import: nothing else of ours.
"""
