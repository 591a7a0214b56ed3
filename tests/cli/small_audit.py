"""An audit of a few seconds, on an algorithm whose epsilon is known."""

AUDIT = """
[population]
source = "directions"
[audit]
challenge_bases = 3
replicates = 20
dataset_size = 49
seed = 1
[algorithm]
object = "clipped-mean"
options = { noise = 0.02, records = 50 }
[attack]
target_alpha = 0.1
[estimate]
model = "count"
likelihood = "binomial"
delta = 0.1
"""
