"""Progress in scripts, and old names of parameters; `docs/test_notebooks.py` has a kernel."""

from __future__ import annotations

import subprocess
import sys

import pytest

import epsilometer as em
from epsilometer._progress import in_notebook, progress_of
from epsilometer.errors import InputError
from tests.report.count_results import TWO, small_plan

MODEL = em.CountModel(delta=0.01)


def test_scripts_are_quiet_unless_asked(capfd: pytest.CaptureFixture[str]) -> None:
    em.measure(small_plan())
    em.estimate(TWO, MODEL)
    em.measure(small_plan(), on_progress="none")
    assert capfd.readouterr() == ("", "")
    em.measure(small_plan(), on_progress="bar")
    out, error = capfd.readouterr()
    assert out == ""
    assert "32 of 32 models" in error


def test_functions_are_called() -> None:
    seen: list[em.rows.Progress] = []
    em.measure(small_plan(), on_progress=seen.append)
    assert seen[-1] == em.rows.Progress(32, 32, 32, 0)
    runs: list[tuple[int, int]] = []
    em.checks.check_pipeline(
        lambda *_: 0.0, label="zero", runs=5, on_progress=lambda *state: runs.append(state)
    )
    assert runs == [(run, 5) for run in range(1, 6)]
    first: list[em.rows.Progress] = []
    em.rows.check_training(small_plan(), on_progress=first.append)
    assert first[-1].trained >= 3


def test_messages_are_passed_on() -> None:
    said: list[str] = []
    em.estimate(TWO, MODEL, on_message=said.append)
    assert said


@pytest.mark.parametrize("wrong", ["Bar", "", 3])
def test_other_values_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="expected on_progress to be a function, 'bar', 'none'"):
        em.measure(small_plan(), on_progress=wrong)  # type: ignore[arg-type]


def test_nothing_of_ipython_is_imported() -> None:
    code = (
        "import sys, epsilometer._progress as p; p.in_notebook(); print('IPython' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
    assert not in_notebook()


def test_bars_of_short_calls_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a second nothing is displayed; after it a bar is, and it is taken away at the end."""
    shown: list[dict[str, str]] = []
    clock = [0.0]
    monkeypatch.setattr("epsilometer._progress.time.monotonic", lambda: clock[0])

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(data)

    class Display:
        @staticmethod
        def display(data: dict[str, str], **_: object) -> Handle:
            shown.append(data)
            return Handle()

    monkeypatch.setattr("epsilometer._progress.import_module", lambda name: Display)
    monkeypatch.setattr("epsilometer._progress.in_notebook", lambda: True)

    def state(done: int) -> tuple[str, int, int]:
        return f"{done} of 9 <b>", done, 9

    with progress_of(None, state=state) as (progress, _):
        assert progress is not None
        progress(1)
    assert shown == []
    with progress_of(None, state=state) as (progress, message):
        assert progress is not None
        assert message is not None
        clock[0] += 2.0
        progress(2)
        message("<i>soon</i>")
    assert shown[0]["text/html"] == (
        '<div><progress value="2" max="9"></progress> 2 of 9 &lt;b&gt;</div>'
    )
    assert shown[-1] == {"text/html": "", "text/plain": ""}
