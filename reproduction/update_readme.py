"""Put the tables that were made into this folder's README, in place of the old ones.

python -m reproduction table1 --output reproduced
python reproduction/update_readme.py reproduced
"""

from __future__ import annotations

import sys
from pathlib import Path

README = Path(__file__).with_name("README.md")


def updated(text: str, table: str) -> str:
    """The text with the table that has the same header replaced by this one."""
    header = table.partition("\n")[0]
    start = text.index(header + "\n")
    end = text.find("\n\n", start)
    return text[:start] + table.rstrip("\n") + (text[end:] if end >= 0 else "\n")


def main() -> None:
    """Update the README from the folder that was named."""
    if len(sys.argv) != 2:
        sys.exit("usage: update_readme.py FOLDER, where `python -m reproduction` put its tables")
    text = README.read_text(encoding="utf-8")
    for path in sorted(Path(sys.argv[1]).glob("table1*.md")):
        try:
            text = updated(text, path.read_text(encoding="utf-8"))
        except ValueError:
            sys.exit(f"{path.name}: expected a table with this header in {README.name}")
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
