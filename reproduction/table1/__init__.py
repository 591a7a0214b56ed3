"""Table 1: credible intervals of epsilon, next to the paper's."""
