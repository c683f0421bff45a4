"""The blinding audit: everything a study's raters are sent, searched for anything they must not learn.

The audit works on a scratch copy of the database; only its report is written to the live database.
"""
