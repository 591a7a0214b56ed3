"""The exact engine of the count model: likelihood surface and integrator."""
