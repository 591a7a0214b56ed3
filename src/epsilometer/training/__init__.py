"""Training algorithms that ship, and wrappers for your own.  Deep learning is imported only here."""
