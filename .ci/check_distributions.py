"""What the wheel and the source distribution must hold, and what they must not."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Bytes; losses of the reproduction are most of it.
LARGEST = 12 * 2**20
JUNK = ("__pycache__", ".pyc", ".db", ".venv", ".mypy_cache", ".ruff_cache", "docs/_build", ".git/")


def main(folder: Path) -> None:
    """Check both; an assertion names what is wrong."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    for path in (wheel, source):
        assert path.stat().st_size < LARGEST, f"{path.name}: {path.stat().st_size} bytes"

    installed = set(zipfile.ZipFile(wheel).namelist())
    tracked = _tracked()
    for name in tracked:
        if name.startswith("src/"):
            assert name.removeprefix("src/") in installed, f"{name} is not in the wheel"
    tops = {name.split("/")[0] for name in installed if ".dist-info/" not in name}
    assert tops == {"epsilometer"}, tops

    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    for name in sorted(tracked):
        assert name in packed, f"{name} is not in the source distribution"
    for name in installed | packed:
        assert not any(junk in name for junk in JUNK), f"junk: {name}"
    print(f"{len(installed)} files in the wheel, {len(packed)} in the source distribution")


def _tracked() -> set[str]:
    """Files under version control; tests and their data are among them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
