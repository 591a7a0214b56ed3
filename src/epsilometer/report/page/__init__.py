"""The HTML report: one self-contained file per result."""
