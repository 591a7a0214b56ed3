"""Audit one fine-tuning run with canaries in your own loop.

python examples/text/own_loop.py
"""

import copy
from pathlib import Path

import fine_tuning
import numpy as np

import epsilometer as em

DELTA, CLAIM = 1e-5, 1.0

#: Error of each proof: there are four, with a total error of at most 5 %.
ERROR = 0.05 / 4


def train(folder, *, count=1000, records=4000, pretraining=10_000, epochs=2, seed=1):
    """Flip coins and train once; returns the models before and after training."""
    rng = np.random.default_rng(seed)
    sequences = fine_tuning.token_sequences
    unused = em.Canaries.of(features=sequences(count, rng, first=fine_tuning.WORDS), rng=rng)
    random = em.Canaries.of(features=sequences(count, rng), rng=rng)
    unused.write(folder / "unused-tokens.npz")
    random.write(folder / "random-tokens.npz")
    own = fine_tuning.toy_text(records, rng)
    tokens = np.concatenate([own, unused.included.features, random.included.features])
    before = fine_tuning.pretrained(pretraining)
    after = copy.deepcopy(before)
    fine_tuning.fit(after, tokens, rng, epochs=epochs, learning_rate=1e-3)
    return before, after


def audit(folder, before, after):
    """Score the canaries with and without a comparison; returns scores by kind and comparison."""
    found = {}
    for kind in ("unused-tokens", "random-tokens"):
        canaries = em.Canaries.read(folder / f"{kind}.npz")
        tokens = canaries.points.features
        losses, earlier = (fine_tuning.losses_of(model, tokens) for model in (after, before))
        found[kind, "alone"] = canaries.scores(losses)
        found[kind, "compared"] = canaries.scores(losses, compared_with=earlier)
    return found


def line(kind, comparison, scores):
    """Proven, shown and estimated epsilon, and the verdict on the claim."""
    proof = em.prove(scores, delta=DELTA, claim=CLAIM, error=ERROR)
    posterior = em.estimate(scores, em.CurveModel(delta=DELTA))
    verdict = em.judge(posterior, claim=CLAIM, error=ERROR)
    proven = np.floor(100 * proof.at_least) / 100  # a lower bound is never rounded up
    low, high = posterior.shown.quantile([0.05, 0.95])
    least, most = posterior.credible_interval("epsilon", 0.9)
    return (
        f"{kind:13}  {comparison:8}  {scores.bases[0].auc():.3f}  {proven:6.2f}  "
        f"{low:5.2f} to {high:5.2f}  {least:5.2f} to {most:5.2f}  {verdict.label}"
    )


def main(folder=Path(__file__).parent, **sizes):
    """Train, score and print; canary files are written to the folder."""
    before, after = train(folder, **sizes)
    print("canaries       loss        AUC  proven  shown           estimated       claim 1")
    for (kind, comparison), scores in audit(folder, before, after).items():
        print(line(kind, comparison, scores), flush=True)


if __name__ == "__main__":
    main()
