"""Other software for the same task, measured in the same run as WetBench. Each is installed in an environment of its own."""
