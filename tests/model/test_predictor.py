import pytest
import torch

from anchorfl.data import ImageStore
from anchorfl.fusion import FUSIONS
from anchorfl.model import FusedModel
from anchorfl.server import Server
from tests.conftest import CPU, make_site, make_trainer

NAMES = [
    name
    for name in FUSIONS.names()
    if not name.startswith("joint") and not FUSIONS.get(name).transductive
]


@pytest.fixture(params=NAMES)
def predictor(request: pytest.FixtureRequest, store: ImageStore) -> FusedModel:
    trainer = make_trainer("v4", fusion=request.param, **{"upload.min_count": 1})
    sites = [make_site(trainer, k, store, own) for k, own in enumerate((range(10), range(10, 24)))]
    for site in sites:
        site.train_round(0)
    server = Server(trainer.setup, CPU)
    server.hold([site.upload() for site in sites])
    return server.fuse()


def test_a_sample_scores_the_same_alone_and_among_others(predictor: FusedModel) -> None:
    images = torch.rand(50, 1, 8, 8)
    together = predictor.train()(images)
    alone = torch.cat([predictor(image[None]) for image in images])
    assert together.dtype == torch.float32
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=0)


def test_a_state_dict_carries_everything(predictor: FusedModel) -> None:
    images = torch.rand(3, 1, 8, 8)
    expected = predictor(images)
    state = {name: value.clone() for name, value in predictor.state_dict().items()}
    for value in predictor.state_dict().values():
        value.zero_()
    predictor.load_state_dict(state)
    torch.testing.assert_close(predictor(images), expected)


def test_images_of_another_kind_are_refused(predictor: FusedModel) -> None:
    with pytest.raises(ValueError, match="N x 1 x 8 x 8"):
        predictor(torch.rand(2, 1, 9, 8))
    with pytest.raises(ValueError, match="uint8"):
        predictor(torch.zeros(2, 1, 8, 8, dtype=torch.uint8))
