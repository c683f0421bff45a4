"""The blinding audit searches everything that a study's raters are sent for anything that they must not learn.

The audit works on a scratch copy of the database; only its report is written to the live database.
"""
