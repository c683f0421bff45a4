"""The soak test: raters on a site whose parts are killed repeatedly, the injected failures, and the checks afterwards."""
