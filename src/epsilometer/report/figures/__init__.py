"""One module a figure: its numbers, how it is drawn for print, and how for the page."""
