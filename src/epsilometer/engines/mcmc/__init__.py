"""The paper's sampler of the count model, as published and tuned."""
