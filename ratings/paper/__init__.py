"""The replication of the WetBench paper: its runs, its two studies and its benchmark, and its numbers beside ours."""
