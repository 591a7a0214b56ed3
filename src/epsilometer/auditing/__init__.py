"""A whole audit from its configuration."""
