"""How often every estimator errs, measured on mechanisms whose privacy is known."""
