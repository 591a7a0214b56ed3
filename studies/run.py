"""Run a study, or write its committed numbers into the documentation.

    python studies/run.py count --quick    # minutes; into studies/results/count-quick
    python studies/run.py count            # the whole plan; into studies/results/count and the pages
    python studies/run.py pages            # pages from the committed results, nothing is run

Interrupted at any time, the same command continues and comes to the same result.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # read when libraries are loaded; processes take their place

from studies import figures, results  # noqa: E402
from studies.catalogue import PAGES, STUDIES  # noqa: E402
from studies.runner import run_study, tables_of  # noqa: E402
from studies.tables import filled  # noqa: E402


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description="Run a study, or write the pages.")
    parser.add_argument("name", choices=[*STUDIES, "pages"])
    parser.add_argument("--quick", action="store_true", help="a few settings and runs: minutes")
    parser.add_argument("--output", type=Path, help="default: studies/results/NAME, or NAME-quick")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    wanted = parser.parse_args(arguments)
    if wanted.name == "pages":
        write_pages()
        return 0
    usual = results.FOLDER / (f"{wanted.name}-quick" if wanted.quick else wanted.name)
    folder = wanted.output or usual
    print(run(wanted.name, folder, quick=wanted.quick, workers=wanted.workers))
    if folder == usual and not wanted.quick:
        write_pages()
    return 0


def run(study: str, folder: Path, *, quick: bool, workers: int) -> str:
    """Run a study into a folder, and return its text and tables."""
    module = STUDIES[study]
    plan = module.plan(quick=quick)
    folder.mkdir(parents=True, exist_ok=True)
    found = run_study(plan, folder / "study.jsonl", workers=workers, on_progress=_say)
    tables = tables_of(plan, found)
    results.write(folder, plan, tables)
    figures.write(study, folder, tables, plan.significance)
    return "\n\n".join(module.blocks(tables, plan.significance).values())


def _say(done: int, total: int) -> None:
    print(f"\r{done:,} of {total:,} jobs", end="" if done < total else "\n", file=sys.stderr)


def write_pages() -> None:
    """Fill the pages from the committed results."""
    for page, text in filled_pages().items():
        page.write_text(text, encoding="utf-8")


def filled_pages() -> dict[Path, str]:
    """Every page with the numbers of the committed results."""
    pages: dict[Path, str] = {}
    for study, module in STUDIES.items():
        page = ROOT / "docs" / PAGES.get(study, "calibration.md")
        text = pages.get(page) or page.read_text(encoding="utf-8")
        pages[page] = filled(text, module.blocks(*results.read(study)))
    return pages


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
