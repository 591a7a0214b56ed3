"""Questions about a posterior: what it rests on, and whether its model holds."""
