"""Plain numbers and text of a posterior's file.  `trees.py` defines and writes the format.

A file is untrusted: nothing in it is executed, every part is checked, and a digest of the contents
detects damage.
"""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epsilometer import _files
from epsilometer._arrays import FloatArray
from epsilometer.errors import InputError
from epsilometer.posteriors import trees

Array = NDArray[Any]

#: Bytes of the largest array to read: a small file may declare any size.
LARGEST_STORED_ARRAY = 2**31

#: Characters of a sentence and sentences that are read of a file.
LONGEST_FLAW, MOST_FLAWS = 1000, 20


class Reader:
    """Reads plain numbers and text from an open HDF5 file and refuses everything else."""

    def __init__(self, file: Any, h5py: Any) -> None:
        self._file = file
        self._h5py = h5py
        if self.text("format") != trees.FORMAT:
            raise InputError("expected a NetCDF file written by epsilometer.")
        version = self.integer("format_version")
        if version != trees.FORMAT_VERSION:
            raise InputError(f"expected format version {trees.FORMAT_VERSION}, got {version}.")
        self.arrays: dict[str, Array] = {}
        for group in ("posterior", "observed_data", "grid"):
            if group in file:
                for name in self._members(group):
                    self.arrays[f"{group}/{name}"] = self._array(f"{group}/{name}")
        attributes = {
            name: self.text(name)
            for name in (*trees.TEXTS, *trees.LATER_TEXTS)
            if name in file.attrs
        }
        if trees.digest(self.arrays, attributes) != self.text("digest"):
            raise InputError("the file is damaged (its digest does not match).")

    def text(self, name: str) -> str:
        value = self._file.attrs.get(name)
        return value if isinstance(value, str) else ""

    def integer(self, name: str, item: str = "/") -> int:
        value = np.asarray(self._file[item].attrs.get(name, -1)).ravel()
        return int(value[0]) if value.size == 1 and value.dtype.kind in "iu" else -1

    def json(self, name: str) -> Any:
        return json.loads(self.text(name))

    def _members(self, group: str) -> list[str]:
        self._own(group)
        # Dimensions without coordinates and the chain and draw counters are not data.
        scales = {"posterior/chain", "posterior/draw"}
        return [
            name
            for name, item in self._file[group].items()
            if f"{group}/{name}" not in scales
            and not (isinstance(item, self._h5py.Dataset) and _is_bare_dimension(item))
        ]

    def _own(self, name: str) -> None:
        """Refuse links that point outside this file."""
        if not isinstance(self._file.get(name, getlink=True), self._h5py.HardLink):
            raise InputError(f"expected {name} inside the file.")

    def _array(self, name: str) -> Array:
        self._own(name)
        item = self._file[name]
        if not isinstance(item, self._h5py.Dataset) or item.external or item.is_virtual:
            raise InputError(f"expected plain numbers in {name}.")
        if item.size * item.dtype.itemsize > LARGEST_STORED_ARRAY:
            raise InputError(f"expected less than {LARGEST_STORED_ARRAY} bytes in {name}.")
        if self._h5py.check_string_dtype(item.dtype):
            return np.array(item.asstr()[()], dtype=object)
        if item.dtype.kind not in "fiu":
            raise InputError(f"expected plain numbers in {name}.")
        return np.asarray(item[()])

    def get(self, name: str, *, ndim: int) -> Array:
        array = self.arrays.get(name)
        if array is None or array.ndim != ndim:
            raise InputError(f"expected {name} with {ndim} dimensions.")
        return array

    def floats(self, name: str, *, ndim: int) -> FloatArray:
        array = self.get(name, ndim=ndim)
        if array.dtype != np.float64 or not np.all(np.isfinite(array)):
            raise InputError(f"expected finite numbers in {name}.")
        return array

    def names(self, column: str) -> list[str]:
        """A column of labels, decoded from the form stored in the file."""
        names = [str(name) for name in self.get(f"observed_data/{column}", ndim=1)]
        if self.integer("names_are_json", f"observed_data/{column}") == 1:
            names = [str(json.loads(name)) for name in names]
        return names

    @property
    def flaws(self) -> list[str]:
        """What the file notes against its data: sentences, shortened."""
        flaws = self.json("flaws") if self.text("flaws") else []
        if not isinstance(flaws, list) or not all(isinstance(flaw, str) for flaw in flaws):
            raise InputError("expected sentences as flaws.")
        return [_files.printable(flaw)[:LONGEST_FLAW] for flaw in flaws[:MOST_FLAWS]]


def _is_bare_dimension(item: Any) -> bool:
    label = item.attrs.get("NAME", b"")
    return isinstance(label, bytes) and label.startswith(b"This is a netCDF dimension but not")
