"""From a model and data to a posterior: the exact engine, MCMC, and the results they return."""
