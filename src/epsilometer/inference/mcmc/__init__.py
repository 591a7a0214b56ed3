"""The sampler of the paper and its form for groups: the posterior by Markov chains."""
