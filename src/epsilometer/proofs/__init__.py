"""Proofs that an algorithm is not (epsilon, delta)-differentially private, with a stated error."""
