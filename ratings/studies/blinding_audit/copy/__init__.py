"""The scratch copy that an audit works on, and the separate process that runs the audit there."""
