import pytest
import torch

from anchorfl.errors import UserError
from anchorfl.objective import Moment
from anchorfl.objective.balance.bank import Adaptive, Curriculum, Stages
from anchorfl.settings import resolve
from tests.objective.balance.conftest import facts, losses


def test_v6_aligns_alone_in_the_first_local_epoch_of_every_round() -> None:
    balance = Stages()
    factors = [balance.anneal(Moment(epoch, 10, 5)) for epoch in range(10)]
    assert factors == [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    for factor, wanted in ((1.0, 0.5), (0.0, 2.0)):
        loss, _ = balance.loss(losses(2.0, 0.5), {}, torch.tensor(factor))
        assert float(loss) == wanted
    coded = Stages(later=1.0)
    for factor, wanted in ((1.0, 0.5), (0.0, 2.5)):
        loss, _ = coded.loss(losses(2.0, 0.5), {}, torch.tensor(factor))
        assert float(loss) == wanted


def test_v6_without_a_local_epoch_or_a_public_share_is_refused() -> None:
    with pytest.raises(UserError, match=r"align\.epochs=5: leaves no local training"):
        resolve("v6", {"align.epochs": 5})
    with pytest.raises(UserError, match=r"partition\.public=0: method v6 needs a public share"):
        resolve("v6", {"partition.public": 0})


def test_the_curriculum_rises_over_a_rounds_epochs_and_restarts() -> None:
    balance = Curriculum()
    factors = [balance.anneal(Moment(epoch, 10, 5)) for epoch in range(10)]
    assert factors[:5] == pytest.approx([0.1, 0.28, 0.46, 0.64, 0.82])
    assert factors[5:] == factors[:5]
    loss, _ = balance.loss(losses(2.0, 0.5), {}, torch.tensor(0.28))
    assert float(loss) == pytest.approx(2.14)


def test_the_adaptive_weight_rises_as_the_classification_loss_falls() -> None:
    balance = Adaptive()
    state, seen = balance.init(facts([4, 4], batches=2)), []
    for classification in (3.0, 1.0, 1.0, 0.5, 4.0, 0.0):
        loss, kept = balance.loss(losses(2.0, 0.5, classification), state, torch.tensor(1.0))
        state |= kept
        seen.append(float(state["lambda"]))
        assert float(loss) == pytest.approx(2.0 + 0.5 * seen[-1])
    assert float(state["first_loss"]) == 2.0
    assert seen == pytest.approx([0.1, 0.1, 0.55, 0.775, 0.1, 1.0])
