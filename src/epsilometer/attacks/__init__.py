"""From losses to decisions to error counts; training models is not done here."""
