"""The whole database as one file with a manifest beside it, and such a file as the database again."""
