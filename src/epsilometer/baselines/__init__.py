"""Other people's estimators on the same inputs, done right, each saying what it assumes."""
