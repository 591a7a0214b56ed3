"""The paper's section 4, from pixels to table 1: a folder for each figure or table.

Everything here is made with the public interface of Epsilometer alone.  `workshop.py` holds what the
scripts share, `audits.py` the six algorithms of the experiment, `drawing.py` how things look.
"""
