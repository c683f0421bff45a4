"""The figures of a study and of a benchmark, drawn from the tables of an analysis and from nothing else. No Django here."""
