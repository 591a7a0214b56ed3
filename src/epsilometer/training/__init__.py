"""The training algorithms that ship, and wrappers around any.  Deep learning is imported here only."""
