"""Forms of the laboratory's pages."""
