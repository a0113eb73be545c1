import torch
import torch.nn.functional as F

from anchorfl.fusion import ServerView
from anchorfl.fusion.zscore import ZScore, ZScoreBatch
from anchorfl.messages import Upload
from anchorfl.objective.anchors import simplex_etf
from tests.conftest import server_view

SIZES = (16, 4)


def make_uploads() -> list[Upload]:
    draw = torch.Generator().manual_seed(0)
    uploads = []
    for client, size in enumerate(SIZES):
        own = torch.randn(size, 5, generator=draw) * 2 + 1
        moments = {
            "feature_moments/mean": own.mean(dim=0),
            "feature_moments/square": own.square().mean(dim=0),
        }
        prototypes = {"prototypes": torch.randn(3, 5, generator=draw)}
        uploads.append(Upload(str(client), torch.tensor([size, 0, 0]), prototypes, moments))
    return uploads


def view(method: str) -> ServerView:
    return server_view(anchors=simplex_etf(3, 5, 2) if method == "v7" else None)


def fused(features: torch.Tensor, mean: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
    standard = (features - mean[:, None]) / deviation[:, None]
    return F.normalize((4 * standard[0] + 2 * standard[1]) / 6, dim=1)


def test_features_are_standardised_by_the_clients_moments_and_compared_with_anchors() -> None:
    uploads = make_uploads()
    features = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(1))
    mean = torch.stack([upload.statistics["feature_moments/mean"] for upload in uploads])
    square = torch.stack([upload.statistics["feature_moments/square"] for upload in uploads])
    wanted = fused(features, mean, (square - mean**2).sqrt())
    images = torch.zeros(6, 1, 8, 8)
    scores = ZScore().head(uploads, [], view("v7"))(features, images)
    torch.testing.assert_close(scores, wanted @ simplex_etf(3, 5, 2).T)
    prototypes = torch.stack([upload.prototypes for upload in uploads]).mean(dim=0)
    scores = ZScore().head(uploads, [], view("v4"))(features, images)
    torch.testing.assert_close(scores, wanted @ F.normalize(prototypes, dim=1).T)


def test_a_client_without_moments_has_no_weight() -> None:
    uploads = make_uploads()
    features = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(1))
    silent = {name: torch.zeros(5) for name in uploads[0].statistics}
    strange = Upload("2", torch.tensor([1, 0, 0]), uploads[0].trained, silent)
    images = torch.zeros(6, 1, 8, 8)
    without = ZScore().head(uploads, [], view("v7"))(features[:2], images)
    head = ZScore().head([*uploads, strange], [], view("v7"))
    assert head.weights[2] == 0
    torch.testing.assert_close(head(features, images), without, atol=0.2, rtol=0)


def test_the_batch_form_uses_the_images_it_is_given() -> None:
    uploads = make_uploads()
    features = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(1))
    wanted = fused(features, features.mean(dim=1), features.std(dim=1, correction=0))
    scores = ZScoreBatch().head(uploads, [], view("v7"))(features, torch.zeros(6, 1, 8, 8))
    torch.testing.assert_close(scores, wanted @ simplex_etf(3, 5, 2).T)
