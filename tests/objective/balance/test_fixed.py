import math

import pytest
import torch

from anchorfl.objective import NoAlignment
from anchorfl.objective.balance.entropy import Entropy, entropy_lambda
from anchorfl.objective.balance.fixed import Fixed
from tests.objective.balance.conftest import facts, losses

SEED_001 = {1.9079: 5.7859, 1.7997: 5.4634, 0.6091: 1.9152, 1.1689: 3.5837, 1.7245: 5.2395}


def counts_of_entropy(bits: float, classes: int = 10) -> torch.Tensor:
    """Class counts of ten classes with the given entropy: one class of weight 1 - p, nine of p/9."""

    def entropy(p: float) -> float:
        shares = [1 - p, *[p / (classes - 1)] * (classes - 1)]
        return -sum(share * math.log2(share) for share in shares if share)

    low, high = 0.0, 0.9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if entropy(middle) < bits else (low, middle)
    shares = torch.tensor([1 - low, *[low / (classes - 1)] * (classes - 1)], dtype=torch.float64)
    return (shares * 1e9).round().long()


@pytest.mark.parametrize(("bits", "expected"), SEED_001.items())
def test_v9_gives_the_lambdas_of_seed_001(bits: float, expected: float) -> None:
    state = Entropy().init(facts(counts_of_entropy(bits)))
    assert float(state["lambda"]) == pytest.approx(expected, abs=1e-3)


def test_entropy_lambda_spans_its_range() -> None:
    assert float(entropy_lambda([0, 7, 0], 0.1, 10)) == pytest.approx(0.1)
    assert float(entropy_lambda([4, 4, 4], 0.1, 10)) == pytest.approx(10)


def test_fixed_is_annealed_and_reports_raw_and_effective() -> None:
    balance = Fixed(lambda_=4.0)
    state, s = balance.init(facts([3, 5])), torch.tensor(0.25)
    loss, kept = balance.loss(losses(2.0, 0.5), state, s)
    assert float(loss) == pytest.approx(2 + 0.25 * 4 * 0.5)
    assert not kept
    readings = balance.readings(losses(2.0, 0.5), state, s)
    assert {name: float(value) for name, value in readings.items()} == {
        "lambda_raw": 4.0,
        "lambda_effective": 1.0,
    }


def test_no_alignment_is_the_base_loss() -> None:
    loss, _ = NoAlignment().loss(losses(2.0, 0.5), {}, torch.tensor(1.0))
    assert float(loss) == 2.0
