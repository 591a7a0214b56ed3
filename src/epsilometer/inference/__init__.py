"""From a model and counts to a posterior: the exact engine, MCMC, and what they return."""
