"""The read API: what pages and files show, for programs, page by page. Nothing is changed through it.

What a request leaves behind: when its token was last used, a line in a study's log for a copy of ratings, an analysis asked for.
"""
