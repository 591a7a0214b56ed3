"""What people look at: summaries and figures.  Nothing here computes a posterior."""
