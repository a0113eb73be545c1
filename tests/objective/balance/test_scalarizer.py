import sys

import pytest
import torch

from anchorfl.errors import UserError
from anchorfl.objective import BALANCES
from anchorfl.registry import Registry
from anchorfl.settings import resolve
from tests.objective.balance.conftest import facts, losses, settled

scalarization = pytest.importorskip("torchjd.scalarization")
NAMES = [name for name in scalarization.__all__ if name != "Scalarizer"]


@pytest.mark.parametrize(("base", "align"), [(6.0, 0.5), (6.0, 0.0), (0.0, 0.5), (0.0, 0.0)])
@pytest.mark.parametrize("name", NAMES)
def test_every_scalarizer_stays_finite(name: str, base: float, align: float) -> None:
    balance = resolve(f"torchjd:{name}", {}).align
    state = settled(balance, base, align, 1.0, steps=600)
    readings = balance.readings(losses(base, align), state, torch.tensor(1.0))
    for value in [*state.values(), *readings.values()]:
        assert torch.isfinite(value).all(), (state, readings)


def test_readings_of_a_random_scalarizer_survive_a_rerun() -> None:
    balance = resolve("torchjd:Random", {}).align
    seen, state = losses(6.0, 0.5), balance.init(facts([5, 5]))
    first, second = (balance.readings(seen, state, torch.tensor(1.0)) for _ in range(2))
    assert first == second


def test_uncertainty_weighting_is_v10() -> None:
    """TorchJD's UW and V10 are one formula, so what moves and every weight must agree."""
    theirs, ours = resolve("torchjd:UW", {}).align, resolve("v10", {}).align
    seen, one = losses(6.0, 0.5), torch.tensor(1.0)
    state, mine = theirs.init(facts([5, 5])), ours.init(facts([5, 5]))
    with torch.no_grad():
        state["log_var"].copy_(torch.tensor([0.7, -0.4]))
        mine["log_sigma_sq_local"].fill_(0.7)
        mine["log_sigma_sq_align"].fill_(-0.4)
    (moves,) = torch.autograd.grad(theirs.loss(seen, state, one)[0], state["log_var"])
    sigmas = [mine["log_sigma_sq_local"], mine["log_sigma_sq_align"]]
    torch.testing.assert_close(
        moves, torch.stack(torch.autograd.grad(ours.loss(seen, mine, one)[0], sigmas))
    )
    wanted = ours.readings(seen, mine, one)
    for name, value in theirs.readings(seen, state, one).items():
        torch.testing.assert_close(value, wanted[name].detach())


def test_dynamic_weight_average_from_the_state_is_the_original() -> None:
    balance, original = resolve("torchjd:DWA", {"align.strength": 1.5}).align, scalarization.DWA(1.5)
    state = balance.init(facts([5, 5], batches=3))
    generator = torch.Generator().manual_seed(0)
    for step in range(15):
        base, align = (0.5 + torch.rand(2, generator=generator)).tolist()
        loss, kept = balance.loss(losses(base, align), state, torch.tensor(1.0))
        state |= kept
        assert float(loss) == pytest.approx(float(original(torch.tensor([base, align]))), rel=1e-5)
        if step % 3 == 2:
            original.step()


def test_famo_moves_weight_to_the_loss_that_falls_more_slowly() -> None:
    balance = resolve("torchjd:FAMO", {}).align
    state = balance.init(facts([5, 5]))
    for step in range(20):
        now = losses(6.0 * 0.9**step, 0.5)
        loss, kept = balance.loss(now, state, torch.tensor(1.0))
        (gradient,) = torch.autograd.grad(loss, state["_w"])
        with torch.no_grad():
            state["_w"] -= 0.5 * gradient
            state["before"].copy_(kept["before"])
    assert state["_w"][1] > state["_w"][0]


def test_preference_and_strength_reach_the_scalarizer() -> None:
    loss, _ = run_once("torchjd:Constant", {"align.lambda": 3.0})
    assert loss == pytest.approx(6.0 + 3.0 * 0.5)
    soft, _ = run_once("torchjd:STCH", {"align.lambda": 1.0, "align.strength": 0.01})
    assert soft == pytest.approx(6.0, abs=0.1)


def run_once(method: str, settings: dict[str, object]) -> tuple[float, dict[str, torch.Tensor]]:
    balance = resolve(method, settings).align
    loss, kept = balance.loss(losses(6.0, 0.5), balance.init(facts([5, 5])), torch.tensor(1.0))
    return float(loss), kept


def test_an_unknown_scalarizer_and_a_missing_extra_end_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UserError, match=r"torchjd:DWAA is unknown; did you mean DWA\?"):
        resolve("torchjd:DWAA", {})
    with pytest.raises(UserError, match=r"torchjd:dwa is unknown; did you mean DWA\?"):
        resolve("torchjd:dwa", {})
    fresh: Registry[type] = Registry("balance", "anchorfl.objective.balance")
    fresh._families = BALANCES._families  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "torchjd.scalarization", None)
    with pytest.raises(UserError, match=r"pip install 'anchorfl\[balance\]'"):
        fresh.get("torchjd:DWA")
