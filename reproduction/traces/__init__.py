"""The appendix's trace plots."""
