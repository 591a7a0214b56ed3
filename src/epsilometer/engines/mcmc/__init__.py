"""The paper's sampler of the count model and the sampler for groups, behind one driver."""
