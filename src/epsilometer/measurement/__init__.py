"""From an algorithm and a population to losses, and from losses to an attack's result.

Nothing here knows of the posterior: error counts are all that inference gets.
"""
