"""Attacks: from losses to decisions to error counts.  Models are trained elsewhere."""
