"""A lambda per client from the entropy of its labels: V9."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anchorfl.objective.balance.base import BALANCES
from anchorfl.objective.balance.fixed import Given
from anchorfl.options import option


@BALANCES.register("entropy")
@dataclass(frozen=True)
class Entropy(Given):
    """A lambda per client, from the entropy H of its labels in bits, C classes.

    lambda         lambda_min + (lambda_max - lambda_min) H / log2 C
    weights see    B + s lambda A
    source         V9, diary 001 and 000 (the formula is inferred from diary 001's table)
    """

    lambda_min: float = option(0.1, "lambda of a client with a single class", at_least=0)
    lambda_max: float = option(10.0, "lambda of a client with uniform labels", at_least=0)

    @property
    def starts_from_labels(self) -> bool:
        return True

    def given(self, class_counts: Sequence[int]) -> float:
        return entropy_lambda(class_counts, self.lambda_min, self.lambda_max)


def label_entropy(class_counts: Sequence[int]) -> float:
    """H = -sum_c p_c log2 p_c of a client's labels, in bits; 0 for no sample or one class."""
    shares = [count / sum(class_counts) for count in class_counts if count]
    return abs(-sum(share * math.log2(share) for share in shares))


def entropy_lambda(class_counts: Sequence[int], smallest: float, largest: float) -> float:
    """V9's lambda of a client: linear in the normalised entropy of its labels."""
    share = label_entropy(class_counts) / math.log2(len(class_counts))
    return smallest + (largest - smallest) * share
