"""Every input a user may hold, read in one place."""
