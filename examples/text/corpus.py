"""Write corpus.npz next to this file: the population of one-run.toml."""

from pathlib import Path

import fine_tuning
import numpy as np

if __name__ == "__main__":
    text = fine_tuning.toy_text(10_000, np.random.default_rng(2))
    np.savez_compressed(Path(__file__).with_name("corpus.npz"), features=text)
