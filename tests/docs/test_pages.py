"""The code of the pages runs, and prints what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.scripts import DOCS, script

run_pages = script("run_pages")


def _has_code(page: Path) -> bool:
    return any(block.step for block in run_pages.blocks(page.read_text(encoding="utf-8")))


PAGES = [page for page in run_pages.pages() if _has_code(page)]


def _name(page: Path) -> str:
    return str(page.relative_to(DOCS).with_suffix(""))


def test_pages_with_code_are_found_in_folders() -> None:
    assert {"tutorial", "peers", "how-to/ci", "explanation/mcmc"} <= {_name(page) for page in PAGES}


#: Pages whose code takes long.
LONG = {
    "tutorial",
    "how-to/ci",
    "how-to/planning",
    "how-to/python",
    "how-to/reports",
    "how-to/scores",
    "how-to/choose",
    "how-to/counts",
    "how-to/check-the-tool",
    "how-to/compare",
    "how-to/many-machines",
    "how-to/losses",
    "how-to/own-training",
    "how-to/one-run",
    "how-to/pool",
    "how-to/gradient-canaries",
    "explanation/mcmc",
}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow) if _name(page) in LONG else page for page in PAGES],
    ids=_name,
)
def test_outputs_are_what_comes_out(page: Path) -> None:
    """After a change that is right: ``python docs/run_pages.py``, and read the difference."""
    text = page.read_text(encoding="utf-8")
    assert run_pages.comparable(run_pages.render(text)) == run_pages.comparable(text)


def test_every_output_has_code_and_every_mark_a_block() -> None:
    for page in run_pages.pages():
        text = page.read_text(encoding="utf-8")
        found = list(run_pages.blocks(text))
        for mark in ("runs", "output", "file: "):
            marked = sum(block.mark.startswith(mark) for block in found)
            assert text.count(f"<!-- {mark}") == marked, (page, mark)
        first = next((block for block in found if block.step or block.mark == "output"), None)
        assert first is None or first.step, page


PAGE = """
<!-- file: answer.py -->
```python
answer = 42
```

```python
import answer

number = answer.answer
print(number)
```

<!-- output -->
```text
{python}
```

<!-- runs -->
```sh
python -c 'from answer import answer; print(answer + 1)'
```

<!-- output -->
```text
{shell}
```

```sh
this is not run
```
"""


def test_outputs_come_from_one_namespace_and_one_folder() -> None:
    right = PAGE.format(python=42, shell=43)
    assert run_pages.render(PAGE.format(python="", shell="no")) == right
    assert run_pages.render(right) == right


@pytest.mark.parametrize("block", ["```python\n1 / 0\n```\n", "<!-- runs -->\n```sh\nfalse\n```\n"])
def test_code_that_fails_is_no_output(block: str) -> None:
    with pytest.raises(RuntimeError, match=r"ZeroDivisionError|exit code 1"):
        run_pages.render(block)


def test_only_times_and_error_estimates_are_left_out_of_the_comparison() -> None:
    comparable = run_pages.comparable
    assert comparable("time 0.78 s") == comparable("time 12.01 s")
    assert comparable("epsilon 0.78 to 1.20") != comparable("epsilon 0.79 to 1.20")
