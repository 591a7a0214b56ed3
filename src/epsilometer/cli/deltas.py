"""What `--delta` may say: one value, several with commas, or a grid LOW:HIGH:COUNT."""

from __future__ import annotations

from epsilometer import _files, _validate
from epsilometer.errors import InputError

MOST_DELTAS = 1000
FORMS = "D, D,D,... or LOW:HIGH:COUNT"


def parse(text: str) -> tuple[float, ...]:
    """The deltas in the order given; a grid is evenly spaced in the logarithm, both ends included."""
    if ":" in text:
        return _grid(text)
    found = tuple(_validate.delta(_number(part, text)) for part in text.split(","))
    for index, value in enumerate(found):
        if value in found[:index]:
            raise InputError(f"expected distinct deltas, got {value:g} twice in --delta.")
    return _not_too_many(found)


def _grid(text: str) -> tuple[float, ...]:
    import numpy as np

    parts = text.split(":")
    if len(parts) != 3 or not parts[2].strip().isdecimal():
        raise InputError(f"expected --delta {FORMS}, got {_files.shown(text)}.")
    low, high = (_validate.delta(_number(part, text)) for part in parts[:2])
    count = _validate.whole_number("COUNT", int(parts[2][:9]), least=2, most=MOST_DELTAS)
    if not 0 < low < high:
        raise InputError(f"expected 0 < LOW < HIGH in --delta LOW:HIGH:COUNT, got {text.strip()}.")
    # To twelve digits, so that 1e-5 is among 1e-6:1e-2:5 and not a rounding error beside it.
    inner = (float(f"{value:.12g}") for value in np.geomspace(low, high, count)[1:-1])
    return (low, *inner, high)


def _number(part: str, whole: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise InputError(f"expected --delta {FORMS}, got {_files.shown(whole)}.") from None


def _not_too_many(found: tuple[float, ...]) -> tuple[float, ...]:
    if len(found) > MOST_DELTAS:
        raise InputError(f"expected at most {MOST_DELTAS} deltas, got {len(found)}.")
    return found
