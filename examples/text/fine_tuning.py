"""A toy language, a small causal transformer, and fine-tuning that can be audited.

Nothing is downloaded: the language is a Markov chain, and the model is pre-trained on it here.
"""

import copy
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

#: Tokens per record.
LENGTH = 16

#: Number of tokens that the language uses, and of tokens that it never uses.
WORDS, UNUSED = 200, 56

VOCABULARY = WORDS + UNUSED

# Multi-threaded sums differ in rounding, and such a small model is not faster with several threads.
torch.set_num_threads(1)


# --- the language -----------------------------------------------------------------------------


def toy_text(count, rng):
    """Records of the language: each word has six possible successors."""
    followers = np.random.default_rng(20260101).integers(WORDS, size=(WORDS, 6))
    text = np.empty((count, LENGTH), dtype=np.int64)
    text[:, 0] = rng.integers(WORDS, size=count)
    for place in range(1, LENGTH):
        text[:, place] = followers[text[:, place - 1], rng.integers(6, size=count)]
    return text


# --- canaries ---------------------------------------------------------------------------------


def token_sequences(count, rng, *, first=0):
    """Random sequences of the tokens from ``first`` upwards."""
    return rng.integers(first, VOCABULARY, size=(count, LENGTH))


def unused_tokens(population, count, rng):
    """Canaries of tokens that no text uses, for an audit file: features without labels."""
    del population
    return token_sequences(count, rng, first=WORDS), None


def random_tokens(population, count, rng):
    """Canaries of any tokens."""
    del population
    return token_sequences(count, rng), None


# --- the model --------------------------------------------------------------------------------


class Transformer(torch.nn.Module):
    """Causal transformer: logits of the next token at every position."""

    def __init__(self, width=64, layers=2, heads=4):
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY + 1, width)  # the last one starts every record
        self.places = torch.nn.Parameter(0.02 * torch.randn(LENGTH, width))
        layer = torch.nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.scores = torch.nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        before = torch.nn.functional.pad(tokens[:, :-1], (1, 0), value=VOCABULARY)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
        hidden = self.tokens(before) + self.places
        return self.scores(self.blocks(hidden, mask=mask, is_causal=True))


def record_losses(model, tokens):
    """Loss of each record: summed cross-entropy of its tokens, in nats."""
    scores = model(tokens).transpose(1, 2)
    return torch.nn.functional.cross_entropy(scores, tokens, reduction="none").sum(dim=1)


def losses_of(model, tokens, batch_size=500):
    """The same as an array, computed in batches without gradients."""
    with torch.no_grad():
        parts = [record_losses(model, part) for part in torch.tensor(tokens).split(batch_size)]
    return torch.cat(parts).double().numpy()


# --- training ---------------------------------------------------------------------------------


def fit(model, tokens, rng, *, epochs, learning_rate, batch_size=50):
    """Train a model in place: an ordinary loop, without any privacy."""
    tokens = torch.tensor(tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for _ in range(epochs):
        for batch in torch.tensor(rng.permutation(len(tokens))).split(batch_size):
            optimizer.zero_grad()
            (record_losses(model, tokens[batch]).mean() / LENGTH).backward()
            optimizer.step()


@cache
def pretrained(records=10_000):
    """The public model that fine-tuning starts from: trained on text of the language only."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Transformer()
    rng = np.random.default_rng(1)
    fit(model, toy_text(records, rng), rng, epochs=4, learning_rate=3e-3)
    return model


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """The algorithm of the audit: train a model, and score canaries."""

    epochs: int = 2
    learning_rate: float = 1e-3
    pretraining: int = 10_000

    def initial_model(self, dataset, rng):
        """The model before fine-tuning, with which losses are compared."""
        del dataset, rng
        return copy.deepcopy(pretrained(self.pretraining))

    def train(self, dataset, rng):
        model = self.initial_model(dataset, rng)
        fit(model, dataset.features, rng, epochs=self.epochs, learning_rate=self.learning_rate)
        return model

    def losses(self, model, points):
        return losses_of(model, points.features)

    def loss(self, model, point):
        return losses_of(model, point.features[None])[0]
