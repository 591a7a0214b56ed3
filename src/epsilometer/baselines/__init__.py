"""Published estimators on the same inputs, implemented correctly, each with its assumptions."""
