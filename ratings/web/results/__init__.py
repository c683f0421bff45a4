"""Pages of results: analyses, items, figures, comparisons, benchmarks and the paper's numbers."""
