"""Every learned lambda: where it settles, what its single backward does, what extremes do to it."""

from __future__ import annotations

import math

import pytest
import torch

from anchorfl.data import ImageStore
from anchorfl.methods import METHODS
from anchorfl.objective import BALANCES, Balance, Moment, Uncertainty
from anchorfl.objective.balance.annealed import AnnealedGamma
from anchorfl.objective.balance.closed_form import ClosedForm
from anchorfl.runs import read_run
from anchorfl.settings import resolve
from anchorfl.site.optimizer import trained
from anchorfl.tensors import section
from tests.conftest import RECORDS, make_trainer
from tests.objective.balance.conftest import facts, losses, settled
from tests.site.test_step import COUNTS, make_batch

B, A, S, GAMMA = 6.0, 0.5, 0.4, 0.05
STATIONARY = {
    "v10": B / A,
    "v10-decoupled": B / A,
    "v11-linear": B / (S * A),
    "v12": B / (S * A),
    "v12-raw": B / (S * A),
    "weight-annealed": B / A,
    "v12-gamma": B / (S * A + 2 * GAMMA),
    "log-annealed": S * B / A,
    "log-annealed-gamma": S * B / (A + 2 * GAMMA),
    "closed-form": S * B / (A + 2 * GAMMA),
    "revised-uncertainty": (B + math.sqrt(B**2 + 8 * B)) / (A + math.sqrt(A**2 + 8 * A)),
}
EFFECTIVE = {
    "v10": 1 / (2 * A),
    "v10-decoupled": B / A,
    "v11-linear": B / A,
    "v12": B / A,
    "v12-raw": B / (S * A),
    "weight-annealed": S * B / A,
    "v12-gamma": S * B / (S * A + 2 * GAMMA),
    "log-annealed": S * B / A,
    "log-annealed-gamma": S * B / (A + 2 * GAMMA),
    "closed-form": S * B / (A + 2 * GAMMA),
    "revised-uncertainty": S * STATIONARY["revised-uncertainty"],
}


def balance_of(method: str) -> Balance:
    return resolve(method, {}).align


@pytest.mark.parametrize("method", STATIONARY)
def test_descent_on_frozen_losses_settles_at_the_stationary_lambda(method: str) -> None:
    balance = balance_of(method)
    state = settled(balance, B, A, S)
    readings = balance.readings(losses(B, A), state, torch.tensor(S))
    assert float(readings["lambda_raw"]) == pytest.approx(STATIONARY[method], rel=0.01)
    assert float(readings["lambda_stationary"]) == pytest.approx(STATIONARY[method], rel=1e-5)
    assert float(readings["lambda_effective"]) == pytest.approx(EFFECTIVE[method], rel=0.01)


def test_all_learned_methods_are_covered_here() -> None:
    learned = {
        name
        for name in METHODS.names()
        if issubclass(BALANCES.get(METHODS.get(name).balance), Uncertainty | ClosedForm)
    }
    assert learned == {*STATIONARY, "v11-cosine", "v12-cosine"}


@pytest.mark.parametrize("method", ["v11-linear", "v12", "v12-raw"])
def test_without_the_align_term_lambda_grows_without_bound_and_does_not_vanish(method: str) -> None:
    """Diary 003 derives sa2 -> infinity for s -> 0; the sign is wrong: +v/2 pulls v to -infinity."""
    short, long = (
        float(settled(balance_of(method), B, A, 0.0, steps)["log_sigma_sq_align"])
        for steps in (100, 400)
    )
    assert long < short < 0
    assert long < 3.5 * short
    readings = balance_of(method).readings(
        losses(B, A), settled(balance_of(method), B, A, 0.0, 1000), torch.tensor(0.0)
    )
    assert float(readings["lambda_raw"]) > 1e6


def test_gamma_bounds_lambda_whatever_becomes_of_the_align_loss() -> None:
    balance = AnnealedGamma(gamma=GAMMA)
    for align, s in ((0.0, 1.0), (1e-9, 0.5), (A, 0.0)):
        state = settled(balance, B, align, s)
        raw = balance.readings(losses(B, align), state, torch.tensor(s))["lambda_raw"]
        assert float(raw) == pytest.approx(B / (2 * GAMMA), rel=0.01)


def weights_see(method: str, u: float, v: float, s: float) -> tuple[float, float]:
    """(weight of B, weight of A) in the weights' gradient, by the table of lambda forms."""
    raw = math.exp(u - v)
    if method == "v10":
        return math.exp(-u) / 2, math.exp(-v) / 2
    whole = ("v10-decoupled", "v12-raw", "log-annealed", "log-annealed-gamma")
    return 1.0, raw if method in whole else s * raw


def sigma_gradient(method: str, base: float, align: float, u: float, v: float, s: float) -> list[float]:
    """d/du and d/dv of the sigma objectives, derived by hand."""
    if method == "revised-uncertainty":
        return [
            -math.exp(-x) * loss / 2 + math.exp(x) / (1 + math.exp(x))
            for loss, x in ((base, u), (align, v))
        ]
    annealed = method.startswith(("v11", "v12"))
    gamma = GAMMA if method.endswith("gamma") else 0.0
    reward = s if method.startswith("log") else 1.0
    du = (1 - math.exp(-u) * base) / 2
    dv = (reward - math.exp(-v) * ((s if annealed else 1.0) * align + 2 * gamma)) / 2
    scale = 2 * math.exp(u) if method.startswith("v11") else 1.0
    return [scale * du, scale * dv]


@pytest.mark.parametrize("method", [name for name in STATIONARY if name != "closed-form"])
def test_one_backward_gives_weights_and_sigmas_exactly_what_each_should_see(
    method: str, store: ImageStore
) -> None:
    trainer = make_trainer(method)
    state = trainer.initial_state(COUNTS)
    u, v, s = 0.7, -0.4, 0.3
    with torch.no_grad():
        state["balance/log_sigma_sq_local"].fill_(u)
        state["balance/log_sigma_sq_align"].fill_(v)
    parameters = trained(state)
    seen = trainer.losses(state, make_batch(trainer, store))
    loss, _ = trainer.config.align.loss(seen, section(state, "balance"), torch.tensor(s))

    def gradient(value: torch.Tensor) -> dict[str, torch.Tensor]:
        values = torch.autograd.grad(
            value,
            list(parameters.values()),
            retain_graph=True,
            materialize_grads=True,
            allow_unused=True,
        )
        return dict(zip(parameters, values, strict=True))

    got, of_base, of_align = gradient(loss), gradient(seen.base), gradient(seen.align)
    base_weight, align_weight = weights_see(method, u, v, s)
    weights = [name for name in parameters if name.startswith("weights/")]
    error = torch.stack(
        [
            (got[name] - base_weight * of_base[name] - align_weight * of_align[name]).norm()
            for name in weights
        ]
    )
    size = torch.stack([got[name].norm() for name in weights])
    assert float(error.norm() / size.norm()) < 1e-6
    du, dv = sigma_gradient(method, seen.base.item(), seen.align.item(), u, v, s)
    assert got["balance/log_sigma_sq_local"].item() == pytest.approx(du, rel=1e-6)
    assert got["balance/log_sigma_sq_align"].item() == pytest.approx(dv, rel=1e-6)


@pytest.mark.parametrize(("base", "align"), [(0.0, 0.5), (6.0, 0.0), (0.0, 0.0), (6.0, 1e-30)])
@pytest.mark.parametrize("method", STATIONARY)
def test_losses_of_exactly_zero_leave_every_number_finite(
    method: str, base: float, align: float
) -> None:
    balance = balance_of(method)
    for s in (1.0, 0.02, 0.0):
        state = settled(balance, base, align, s, steps=2000)
        readings = balance.readings(losses(base, align), state, torch.tensor(s))
        for value in [*state.values(), *readings.values()]:
            assert math.isfinite(float(value)), (s, readings)


def test_the_start_is_zero_local_first_or_v9s_lambda() -> None:
    counts = facts([8, 8, 0, 0])
    wanted = {"zero": 1.0, "local-first": math.exp(-1), "entropy": 0.1 + 9.9 * 0.5}
    for start, expected in wanted.items():
        state = resolve("v12", {"align.start": start}).align.init(counts)
        lambda_ = (state["log_sigma_sq_local"] - state["log_sigma_sq_align"]).exp()
        assert float(lambda_.detach()) == pytest.approx(expected, rel=1e-5)


def test_seed_000s_product_law_holds_on_recorded_losses() -> None:
    """Two schedules on one record of B(t), A(t): lambda differs, lambda * s does not, once relaxed."""
    own = read_run(RECORDS / "v12-gamma-svhn-seed1").clients[0]
    products: dict[str, list[float]] = {}
    for method in ("v12", "v12-cosine"):
        balance = balance_of(method)
        assert isinstance(balance, Uncertainty)
        state = balance.init(facts([5, 5]))
        moving = [value for value in state.values() if value.requires_grad]
        for index, line in enumerate(own):
            s = torch.tensor(balance.anneal(Moment(index, len(own), 1)))
            now = losses(line["base_loss"], line["align_loss"])
            for _ in range(300):
                loss, _ = balance.loss(now, state, s)
                with torch.no_grad():
                    for value, gradient in zip(moving, torch.autograd.grad(loss, moving), strict=True):
                        value -= 0.1 * gradient
            raw = balance.readings(now, state, s)["lambda_raw"].item()
            products.setdefault(method, []).append(raw * s.item())
    for linear, cosine in zip(*products.values(), strict=True):
        assert linear == pytest.approx(cosine, rel=0.03)
