"""Findings as runs of an experiment tracker: parameters, metrics, tags and artifacts in MLflow."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epsilometer import _extras
from epsilometer.errors import EpsilometerError
from epsilometer.report.gates.findings import Finding

TOOL = "epsilometer"
ADVICE = " Set MLFLOW_TRACKING_URI to your tracking server."


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """What is logged of one result."""

    name: str
    params: dict[str, Any]
    metrics: dict[str, float]
    tags: dict[str, str]


def run_of(finding: Finding, *, source: str | None) -> TrackedRun:
    """Parameters, metrics and tags; a number that is missing or infinite is left out."""
    claim = finding.claim
    numbers: dict[str, float | None] = {"proven": finding.proven}
    if finding.estimate is not None:
        low, median, high = finding.estimate
        numbers |= {"median": median, "interval_low": low, "interval_high": high}
    params: dict[str, Any] = {"model": finding.model, "level": finding.level}
    params["delta"] = finding.delta
    tags = {"epsilometer.converged": str(finding.converged).lower()}
    if claim is not None:
        params["claim"] = claim.epsilon if claim.epsilon is not None else claim.title
        numbers["probability_above"] = claim.probability_above
        tags["verdict"] = claim.label
        if claim.source is not None:
            tags["epsilometer.claim_source"] = claim.source
    if finding.variant is not None:
        tags["epsilometer.variant"] = finding.variant
    if source is not None:
        tags["epsilometer.source"] = source
    metrics = {name: v for name, v in numbers.items() if v is not None and math.isfinite(v)}
    name = TOOL if finding.variant is None else f"{TOOL} {finding.variant}"
    return TrackedRun(name=name, params=params, metrics=metrics, tags=tags)


def check_mlflow() -> None:
    """Refuse to start without MLflow's client."""
    _mlflow()


def log_to_mlflow(run: TrackedRun, summary: dict[str, Any], artifacts: Iterable[Path]) -> str:
    """Log one run where MLflow's own settings say, and return its identity.

    MLflow reads ``MLFLOW_TRACKING_URI``, ``MLFLOW_EXPERIMENT_NAME`` and ``MLFLOW_RUN_ID``.
    """
    mlflow = _mlflow()
    # MLflow prints the address of the run, which is not the program's answer.
    with redirect_stdout(sys.stderr):
        try:
            with mlflow.start_run(run_name=run.name) as started:
                mlflow.log_params(run.params)
                mlflow.log_metrics(run.metrics)
                mlflow.set_tags(run.tags)
                mlflow.log_text(json.dumps(summary, indent=2, allow_nan=False), "summary.json")
                for path in artifacts:
                    mlflow.log_artifact(str(path))
        except mlflow.exceptions.MlflowException as error:
            unset = "" if os.environ.get("MLFLOW_TRACKING_URI") else ADVICE
            raise EpsilometerError(f"--log mlflow: {error}{unset}") from None
    return str(started.info.run_id)


def _mlflow() -> Any:
    return _extras.load("mlflow", "--log mlflow needs MLflow's client", "mlflow")
