"""The exact engine: the posterior by deterministic quadrature."""
