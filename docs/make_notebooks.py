"""Execute the notebooks of ``docs/notebooks`` and write them back with their outputs.

``python docs/make_notebooks.py [NAME ...]`` runs all of them, or those named, each in a fresh kernel.
What is written depends on code and outputs alone: no times, no random ids, no paths.  Edit the cells in
Jupyter or an editor, then run this; ``tests/docs/test_notebooks.py`` checks that outputs are up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"

#: Seconds that a cell may take.
TIMEOUT = 600

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with new outputs, from a fresh kernel that starts in an empty folder."""
    from tempfile import TemporaryDirectory

    import nbformat
    from nbclient import NotebookClient

    made = nbformat.reads(json.dumps(notebook), as_version=4)  # type: ignore[no-untyped-call]
    with TemporaryDirectory() as folder:
        client = NotebookClient(
            made,
            timeout=TIMEOUT,
            kernel_name=KERNEL["name"],
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    text = nbformat.writes(made)  # type: ignore[no-untyped-call]
    return plain(json.loads(text))


def plain(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook without anything that differs from run to run."""
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"]):
        kept: dict[str, Any] = {
            "cell_type": cell["cell_type"],
            "id": f"cell-{number + 1}",
            "metadata": {},
            "source": _lines(cell["source"]),
        }
        if cell["cell_type"] == "code":
            count += 1
            kept |= {"execution_count": count, "outputs": _outputs(cell["outputs"], count)}
        cells.append(kept)
    metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _outputs(outputs: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    found = []
    for output in outputs:
        if output["output_type"] == "stream":
            found.append(
                {"name": output["name"], "output_type": "stream", "text": _lines(output["text"])}
            )
            continue
        data = {kind: _lines(text) for kind, text in sorted(output.get("data", {}).items())}
        if not any("".join(text).strip() for text in data.values()):
            continue  # a progress bar that was taken away
        kept = {"data": data, "metadata": {}, "output_type": output["output_type"]}
        if output["output_type"] == "execute_result":
            kept["execution_count"] = count
        found.append(kept)
    return found


def _lines(text: str | list[str]) -> list[str]:
    return "".join(text).splitlines(keepends=True)


def dumps(notebook: dict[str, Any]) -> str:
    """The text of a file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> None:
    """Execute and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="stems of files, such as first-audit")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the notebooks are")
    chosen = parser.parse_args()
    names = chosen.names or sorted(path.stem for path in chosen.folder.glob("*.ipynb"))
    for name in names:
        path = chosen.folder / f"{name}.ipynb"
        notebook = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(dumps(executed(notebook)), encoding="utf-8")
        sys.stdout.write(f"{path.name} written, {path.stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main()
