"""The scratch copy that an audit works on, and the process of its own that works there."""
