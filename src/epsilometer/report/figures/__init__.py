"""The figures of a report, described as marks and drawn for print and for the page."""
