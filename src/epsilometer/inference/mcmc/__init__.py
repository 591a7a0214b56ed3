"""The paper's sampler and its extension to groups: the posterior by Markov chains."""
