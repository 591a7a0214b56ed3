"""Run README's main audit and put its real output and its picture into README.

    python docs/make_readme.py FOLDER

trains the 4,000 networks of ``epsilometer audit`` in FOLDER (about two minutes on two cores; resumed if
they are there), then replaces the text between the two marks of README.md with the first screen that the
command printed, ``docs/readme/audit.txt`` with all its output, and ``docs/readme/audit.png`` with its
figure.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "readme" / "audit.png"
OUTPUT = PICTURE.with_suffix(".txt")
FIGURE = "answer.png"
BEGIN, END = "<!-- output of the audit: docs/make_readme.py -->", "<!-- end of output -->"


def run_audit(folder: Path) -> str:
    """What ``epsilometer audit`` prints, 80 columns wide."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "epsilometer", "audit", "--output", "result", "--force"]
    done = subprocess.run(command, cwd=folder, check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout


def excerpt(printed: str) -> str:
    """The first screen: all but the number of models before it and the names of files after it."""
    paragraphs = printed.strip().split("\n\n")
    around = (" models trained now", "Written to ")
    return "\n\n".join(text for text in paragraphs if not any(word in text for word in around))


def with_output(readme: str, text: str) -> str:
    """README with the output replaced."""
    block = f"{BEGIN}\n```text\n{text}\n```\n{END}"
    replaced, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, readme, flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"README.md: expected one block between {BEGIN} and {END}, got {count}.")
    return replaced


def main(folder: Path) -> None:
    """Audit, and update README and its picture."""
    printed = run_audit(folder)
    text = README.read_text(encoding="utf-8")
    README.write_text(with_output(text, excerpt(printed)), encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(printed, encoding="utf-8")
    shutil.copyfile(folder / "result" / FIGURE, PICTURE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
