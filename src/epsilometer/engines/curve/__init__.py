"""The exact engine of the curve model."""
