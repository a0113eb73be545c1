import pytest
import torch

from anchorfl.settings import resolve
from anchorfl.site.optimizer import clip, descend, groups
from anchorfl.tensors import Tensors

Groups = dict[str, Tensors]


def gradients(
    encoder: float = 3.0, prototypes: float = 4.0, sigmas: float = 12.0
) -> dict[str, Tensors]:
    return groups(
        {
            "weights/encoder.w": torch.tensor([encoder]),
            "weights/prototypes": torch.tensor([0.0, prototypes]),
            "balance/u": torch.tensor(sigmas),
        }
    )


def flat(members: Groups) -> list[float]:
    return [x for each in members.values() for value in each.values() for x in value.flatten().tolist()]


def test_global_clipping_scales_all_groups_by_one_factor() -> None:
    members = gradients()
    readings = clip(members, resolve("v12", {"train.clip_norm": 1.3}).train)
    assert flat(members) == pytest.approx([0.3, 0.0, 0.4, 1.2], rel=1e-5)
    assert float(readings["clip_factor"]) == pytest.approx(0.1, rel=1e-5)
    assert float(readings["gradient_norm"]) == pytest.approx(13.0)
    shares = [float(readings[f"gradient_share_{name}"]) for name in ("encoder", "prototypes", "sigmas")]
    assert shares == pytest.approx([9 / 169, 16 / 169, 144 / 169], rel=1e-5)


def test_group_clipping_leaves_each_group_its_own_norm() -> None:
    members = gradients(encoder=0.5)
    readings = clip(members, resolve("v12", {"train.clip": "group"}).train)
    assert flat(members) == pytest.approx([0.5, 0.0, 1.0, 1.0], rel=1e-5)
    factors = [float(readings[f"clip_factor_{name}"]) for name in ("encoder", "prototypes", "sigmas")]
    assert factors == pytest.approx([1.0, 1 / 4, 1 / 12], rel=1e-5)
    left, joint = (0.25 + 1 + 1) ** 0.5, (0.25 + 16 + 144) ** 0.5
    assert float(readings["clip_factor"]) == pytest.approx(left / joint, rel=1e-5)


def test_no_clipping_and_no_gradient_leave_a_factor_of_one() -> None:
    for members, norm in ((gradients(1e6), 0), (gradients(0.0, 0.0, 0.0), 1)):
        before = flat(members)
        readings = clip(members, resolve("v12", {"train.clip_norm": norm}).train)
        assert flat(members) == before
        assert float(readings["clip_factor"]) == pytest.approx(1.0)


def test_sigmas_have_their_own_rate_and_momentum_and_no_decay() -> None:
    words = {"train.weight_decay": 0.1, "train.lr": 0.1, "align.sigma_lr": 0.02}
    config = resolve("v12", {**words, "align.sigma_momentum": 0.5})
    names = ("weights/encoder.w", "balance/u")
    state = {name: torch.tensor([1.0]) for name in names}
    state |= {f"momentum/{name}": torch.tensor([2.0]) for name in names}
    halfway = torch.tensor(0.05)
    descend(state, groups({name: torch.tensor([0.5]) for name in names}), halfway, config)
    assert state["momentum/weights/encoder.w"].item() == pytest.approx(0.9 * 2 + 0.5 + 0.1)
    assert state["weights/encoder.w"].item() == pytest.approx(1 - 0.05 * 2.4)
    assert state["momentum/balance/u"].item() == pytest.approx(0.5 * 2 + 0.5)
    assert state["balance/u"].item() == pytest.approx(1 - 0.01 * 1.5)


def test_without_sigma_momentum_a_step_forgets_the_one_before() -> None:
    config = resolve("v12", {"align.sigma_momentum": 0})
    state = {"balance/u": torch.tensor([1.0]), "momentum/balance/u": torch.tensor([9.0])}
    descend(state, groups({"balance/u": torch.tensor([1.0])}), torch.tensor(0.05), config)
    assert state["balance/u"].item() == pytest.approx(0.95)
