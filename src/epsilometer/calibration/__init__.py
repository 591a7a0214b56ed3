"""Calibration: the error rates of every estimator, measured on mechanisms whose privacy is known."""
