"""Assumptions about mixtures: the point may matter only some of the time."""

from dataclasses import dataclass
from typing import ClassVar

from epsilometer import _validate
from epsilometer.errors import InputError
from epsilometer.model.family import Curves, Family, MixtureInterpretation

#: Representative rates: mixtures in between resemble one of them.
MIXING_RATES = (0.03, 0.1, 0.2, 0.35, 0.5, 0.7)

#: Prior of the interpretation, given a mixture: the smaller epsilon has the larger share.
INTERPRETATION_SHARES = {MixtureInterpretation.MECHANISM: 0.6, MixtureInterpretation.ATTACK: 0.4}


@dataclass(frozen=True, kw_only=True)
class FreeMixing:
    """There may be a mixture, with any rate and either interpretation.

    Parameters
    ----------
    rates
        Rates that stand for all, at most 20.
    """

    rates: tuple[float, ...] = MIXING_RATES
    #: Whether the algorithm is known to sample its records.
    sampled: ClassVar[bool] = False
    name: ClassVar[str] = "free"
    description: ClassVar[str] = (
        "Scores may be a mixture, as if the point mattered only now and then: because the algorithm "
        "samples its records, or because the attacks see it only sometimes. Data cannot tell these "
        "two apart; both are kept."
    )

    def __post_init__(self) -> None:
        rates = tuple(_validate.open_unit_interval("rates", rate) for rate in self.rates)
        if not 0 < len(rates) <= 20:
            raise InputError(f"expected 1 to 20 mixing rates, got {len(rates)}.")
        object.__setattr__(self, "rates", rates)

    def curves(self, family: Family) -> list[tuple[Curves, float]]:
        """The curves of a family, each with its share of the prior."""
        rates = [rate for rate in self.rates if rate >= family.least_rate] or [max(self.rates)]
        mixed = family.mixed_share / len(rates)
        found = [(Curves(family=family), 1 - family.mixed_share)] + [
            (Curves(family=family, rate=rate, interpretation=interpretation), mixed * share)
            for rate in rates
            for interpretation, share in INTERPRETATION_SHARES.items()
        ]
        return [(curves, share) for curves, share in found if share > 0]


@dataclass(frozen=True, kw_only=True)
class NoMixing:
    """The point always matters."""

    sampled: ClassVar[bool] = False
    name: ClassVar[str] = "none"
    description: ClassVar[str] = (
        "The point is assumed to matter in every training run and every attack."
    )

    def curves(self, family: Family) -> list[tuple[Curves, float]]:
        """The family alone, unless it is for mixtures only."""
        return [(Curves(family=family), 1.0)] if family.mixed_share < 1 else []


@dataclass(frozen=True, kw_only=True)
class KnownMixing:
    """The mechanism uses a record with a known probability, its sampling rate."""

    rate: float
    name: ClassVar[str] = "known"

    def __post_init__(self) -> None:
        rate = _validate.positive("mixing", self.rate)
        if rate > 1:
            raise InputError(f"expected 0 < mixing <= 1, got mixing={rate}.")
        object.__setattr__(self, "rate", rate)

    @property
    def sampled(self) -> bool:
        return self.rate < 1

    @property
    def description(self) -> str:
        return f"The algorithm is assumed to use each record with probability {self.rate:g}, as stated."

    def curves(self, family: Family) -> list[tuple[Curves, float]]:
        """The family under that sampling rate; those for mixtures only are the same as others then."""
        return [(Curves(family=family, rate=self.rate), 1.0)] if family.mixed_share < 1 else []


Mixing = FreeMixing | NoMixing | KnownMixing
#: Mixing classes by the name used in files.
MIXINGS: dict[str, type] = {kind.__name__: kind for kind in (FreeMixing, NoMixing, KnownMixing)}


def mixing_of(text: str | float) -> Mixing:
    """Parse an option or configuration value: free, none, or a sampling rate in (0, 1]."""
    for kind in (FreeMixing(), NoMixing()):
        if text == kind.name:
            return kind
    try:
        return KnownMixing(rate=float(text))
    except ValueError:
        raise InputError(
            f"expected mixing to be free, none or a rate in (0, 1], got mixing={text!r}."
        ) from None
