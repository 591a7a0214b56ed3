"""Findings as runs of an experiment tracker: parameters, metrics, tags and artifacts in MLflow."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from epsilometer import _extras
from epsilometer.errors import EpsilometerError
from epsilometer.report.gates.findings import Finding

TOOL = "epsilometer"
ADVICE = " Set MLFLOW_TRACKING_URI to your tracking server."


class TrackedRun(NamedTuple):
    """What is logged of one result."""

    name: str
    params: dict[str, Any]
    metrics: dict[str, float]
    tags: dict[str, str]


def run_of(finding: Finding, *, source: str | None) -> TrackedRun:
    """Parameters, metrics and tags; a number that is missing or infinite is left out."""
    low, median, high = finding.estimate or (None, None, None)
    numbers = {"proven": finding.proven, "median": median, "interval_low": low}
    numbers |= {"interval_high": high, "probability_above": finding.above}
    params = {"model": finding.model, "level": finding.level, "delta": finding.delta}
    tags = {
        "epsilometer.converged": str(finding.converged).lower(),
        "epsilometer.claim_source": finding.claim_source,
        "epsilometer.variant": finding.variant,
        "epsilometer.source": source,
    }
    if finding.verdict is not None:
        params["claim"] = finding.title if finding.claimed is None else finding.claimed
        tags["verdict"] = finding.verdict.label
    return TrackedRun(
        name=" ".join(filter(None, (TOOL, finding.variant))),
        params=params,
        metrics={name: v for name, v in numbers.items() if v is not None and math.isfinite(v)},
        tags={name: text for name, text in tags.items() if text is not None},
    )


def log_to_mlflow(run: TrackedRun, summary: dict[str, Any], artifacts: Iterable[Path]) -> str:
    """Log one run where MLflow's own settings say, and return its identity.

    MLflow reads ``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME`` and ``MLFLOW_RUN_ID``.
    """
    client = mlflow()
    # MLflow prints the address of the run, which is not the program's answer.
    with redirect_stdout(sys.stderr):
        try:
            with client.start_run(run_name=run.name) as started:
                client.log_params(run.params)
                client.log_metrics(run.metrics)
                client.set_tags(run.tags)
                client.log_text(json.dumps(summary, indent=2, allow_nan=False), "summary.json")
                for path in artifacts:
                    client.log_artifact(str(path))
        except client.exceptions.MlflowException as error:
            unset = "" if os.environ.get("MLFLOW_TRACKING_URI") else ADVICE
            raise EpsilometerError(f"--log mlflow: {error}{unset}") from None
    return str(started.info.run_id)


def mlflow() -> Any:
    """MLflow's client; an error says what to install if it is missing."""
    return _extras.load("mlflow", "--log mlflow needs MLflow's client", "mlflow")
