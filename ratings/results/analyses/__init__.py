"""What is computed of a study's ratings once it is unblinded, as one stored document that page, files and figures read."""
