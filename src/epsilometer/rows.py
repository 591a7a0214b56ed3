"""Parts of data and plans: records, bases, canaries, challenge points, measurements."""

from epsilometer._lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
