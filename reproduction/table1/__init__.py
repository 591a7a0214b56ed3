"""Table 1: credible intervals of epsilon, beside the paper's."""
