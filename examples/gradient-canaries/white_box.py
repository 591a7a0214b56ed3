"""The white-box setting of the literature: noise 3, rate 1/11, 2,200 steps, 5,000 canaries.

python white_box.py
python white_box.py --released-only --width 320 --norm 10 --learning-rate 0.05 --output released.json

Writes a JSON file with a row for each seed, and prints the table of README.md.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

import epsilometer as em

DELTA, ERROR = 1e-5, 0.05
RECORDS = 1793  # 11 batches of 163


def network(width: int) -> torch.nn.Module:
    """75 parameters per hidden unit, plus 10."""
    return torch.nn.Sequential(
        torch.nn.Linear(64, width), torch.nn.Tanh(), torch.nn.Linear(width, 10)
    )


class Remembering(em.DpSgd):
    """DP-SGD that keeps its trained parameters, to check that the model learned something."""

    def optimizer(self, parameters, seed):
        trained[:] = parameters
        return super().optimizer(parameters, seed)


trained: list[torch.Tensor] = []


def accuracy(algorithm: em.DpSgd, dataset: em.rows.Dataset) -> float:
    """Training accuracy of the last model."""
    module = algorithm.module()
    with torch.no_grad():
        for part, values in zip(module.parameters(), trained, strict=True):
            part.copy_(values)
        found = module(torch.tensor(dataset.features, dtype=torch.float32)).argmax(dim=1).numpy()
    return float((found == dataset.labels).mean())


def audited(algorithm: em.DpSgd, dataset: em.rows.Dataset, seed: int) -> dict[str, object]:
    """One training run and the results of its canaries."""
    claim, start = algorithm.claimed_epsilon(DELTA), time.process_time()
    scores = algorithm.audit_gradients(dataset, np.random.default_rng(seed))
    seconds = time.process_time() - start
    posterior = em.estimate(scores, algorithm.canary_model(DELTA))
    others, members = scores.bases[0].by_hypothesis
    bounds = em.baselines.CanaryScoreAuditor(members, others)
    return {
        "seed": seed,
        "claim": claim,
        "posterior_5_50_95": [float(x) for x in posterior.quantile("epsilon", [0.05, 0.5, 0.95])],
        "verdict": em.judge(posterior, claim=claim).label,
        "proven": em.prove(scores, delta=DELTA, claim=claim).at_least,
        "steinke": bounds.epsilon_one_run(ERROR, DELTA),
        "f_dp_any": bounds.epsilon_one_run_fdp(ERROR, DELTA),
        "f_dp_gaussian": bounds.epsilon_one_run_fdp(ERROR, DELTA, family=em.baselines.GaussianDP()),
        "accuracy": accuracy(algorithm, dataset),
        "cpu_seconds": round(seconds, 1),
    }


def table(rows: list[dict[str, object]]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| seed | claim | 5 % | median | 95 % | 5 % / claim | proven | Steinke et al. | f-DP | "
        "f-DP, Gaussian | accuracy | CPU seconds |",
        "| --- " * 12 + "|",
    ]
    for row in rows:
        low, middle, high = row["posterior_5_50_95"]
        numbers = [row["claim"], low, middle, high, low / row["claim"], row["proven"]]
        numbers += [row["steinke"], row["f_dp_any"], row["f_dp_gaussian"], row["accuracy"]]
        cells = " | ".join(f"{number:.2f}" for number in numbers)
        lines.append(f"| {row['seed']} | {cells} | {row['cpu_seconds']:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Train once per seed; write after each run, so that an interrupt loses at most one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=2200)
    parser.add_argument("--canaries", type=int, default=5000)
    parser.add_argument("--width", type=int, default=80, help="units of the hidden layer")
    parser.add_argument("--norm", type=float, default=1.0, help="the clipping norm")
    parser.add_argument("--learning-rate", type=float, default=0.5)
    parser.add_argument("--released-only", action="store_true", help="score without the records")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("white_box.json"))
    arguments = parser.parse_args()
    algorithm = Remembering(
        module=partial(network, arguments.width),
        noise_multiplier=3.0,
        max_grad_norm=arguments.norm,
        batch_size=RECORDS // 11,
        steps=arguments.steps,
        learning_rate=arguments.learning_rate,
        records=RECORDS,
        gradient_canaries=arguments.canaries,
        known_records=not arguments.released_only,
    )
    dataset = em.datasets.load_population("digits").take(np.arange(RECORDS))
    rows = []
    for seed in arguments.seeds:
        rows.append(audited(algorithm, dataset, seed))
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
