"""What notebooks show of results and data: a line, a table and a figure for each class.

A class names its view (see `epsilometer/_display.py`); views are constants of the modules here.
"""
