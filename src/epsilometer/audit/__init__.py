"""A whole audit as a file describes it: what is trained, how it is attacked, what is assumed."""
