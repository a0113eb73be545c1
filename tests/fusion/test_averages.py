import math

import pytest
import torch
import torch.nn.functional as F

from anchorfl.data import ImageStore
from anchorfl.describe import second_moments, with_constant
from anchorfl.fusion import FUSIONS, ServerView
from anchorfl.messages import Upload
from anchorfl.randomness import generator
from anchorfl.server import Server
from anchorfl.tensors import Encoder, Tensors, prefixed
from tests.conftest import CPU, make_setup, make_site, make_trainer, server_view

SIZES, CLASSES, DIMENSION, SAMPLES = (30, 10, 1), 4, 5, 6
IMAGES = torch.rand(SAMPLES, 1, 8, 8, generator=torch.Generator().manual_seed(3))
NOISE = F.normalize(torch.randn(3, DIMENSION, generator=torch.Generator().manual_seed(8)), dim=1)


def make_uploads() -> list[Upload]:
    draw = torch.Generator().manual_seed(1)
    return [
        Upload(
            str(client),
            class_counts=torch.tensor([size, 0, 0, 0]),
            statistics=statistics(client),
            trained={
                "prototypes": torch.randn(CLASSES, DIMENSION, generator=draw),
                "encoder.weight": torch.full((2,), float(client)),
                "encoder.count": torch.tensor(3 * client),
            },
        )
        for client, size in enumerate(SIZES)
    ]


def statistics(client: int) -> Tensors:
    """Of three samples, under three encoders where others are asked for."""
    draw = torch.Generator().manual_seed(20 + client)
    classes = torch.eye(CLASSES)[:3]
    made = prefixed("class_means", {"mean": torch.randn(CLASSES, DIMENSION, generator=draw)})
    own = torch.randn(3, DIMENSION, generator=draw)
    moments = {"mean": own.mean(dim=0), "square": own.square().mean(dim=0)}
    made |= prefixed("feature_moments", moments)
    sketch, joint = 2 * 9, 3 * DIMENSION
    widths = {"sketch_moments": sketch, "joint_moments": joint, "joint_sketch_moments": joint + sketch}
    for name, width in widths.items():
        rows = with_constant(torch.randn(3, width, generator=draw))
        made |= prefixed(name, second_moments(rows, classes))
    return made


def make_features() -> torch.Tensor:
    draw = torch.randn(3, SAMPLES, DIMENSION, generator=torch.Generator().manual_seed(2))
    return F.normalize(draw, dim=2)


def view() -> ServerView:
    """An encoder whose feature of the seed's noise image is known, and the same for other pictures."""

    def encode(encoder: Encoder, images: torch.Tensor) -> torch.Tensor:
        wanted = torch.rand(1, 1, 8, 8, generator=generator(4, "noise"))
        assert len(images) > 1 or torch.equal(images, wanted)
        return NOISE[int(encoder.weights["encoder.weight"][0])].repeat(len(images), 1)

    return server_view(encode=encode, seed=4)


def scores(name: str, **options: float) -> list[list[float]]:
    fusion, uploads = FUSIONS.get(name)(**options), make_uploads()
    head = fusion.head(uploads, fusion.encoders(uploads), view())
    return head(make_features(), IMAGES).tolist()


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def score_mean_prototypes(fused: list[float]) -> list[float]:
    length = math.sqrt(dot(fused, fused))
    prototypes = [upload.prototypes.tolist() for upload in make_uploads()]
    mean = [[sum(p[c][d] for p in prototypes) / 3 for d in range(DIMENSION)] for c in range(CLASSES)]
    return [dot(fused, row) / length for row in mean]


@pytest.mark.parametrize("name", ["feature-mean", "normalised-feature-mean"])
def test_feature_means_equal_a_plain_loop(name: str) -> None:
    features, result = make_features().tolist(), scores(name)
    for n in range(SAMPLES):
        fused = [sum(SIZES[k] / 41 * features[k][n][d] for k in range(3)) for d in range(DIMENSION)]
        assert result[n] == pytest.approx(score_mean_prototypes(fused), abs=1e-5)


def test_iffi_weighs_a_client_by_its_distance_to_its_noise() -> None:
    features, result = make_features().tolist(), scores("iffi")
    for n in range(SAMPLES):
        distance = [1 - dot(features[k][n], NOISE[k].tolist()) for k in range(3)]
        fused = [sum(distance[k] * features[k][n][d] for k in range(3)) for d in range(DIMENSION)]
        assert result[n] == pytest.approx(score_mean_prototypes(fused), abs=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_softmax_mean_equals_a_plain_loop(temperature: float) -> None:
    features, uploads = make_features().tolist(), make_uploads()
    result = scores("softmax-mean", temperature=temperature)
    for n in range(SAMPLES):
        expected = [0.0] * CLASSES
        for k, upload in enumerate(uploads):
            logits = [dot(features[k][n], row) / temperature for row in upload.prototypes.tolist()]
            total = sum(map(math.exp, logits))
            for c in range(CLASSES):
                expected[c] += SIZES[k] / 41 * math.exp(logits[c]) / total
        assert [math.exp(value) for value in result[n]] == pytest.approx(expected, abs=1e-6)


def test_parameter_mean_averages_parameters_and_buffers_by_size() -> None:
    fusion, uploads = FUSIONS.get("parameter-mean")(), make_uploads()
    (encoder,) = fusion.encoders(uploads)
    weights = encoder.weights
    assert weights["encoder.weight"].tolist() == pytest.approx([(10 * 1 + 1 * 2) / 41] * 2)
    assert weights["encoder.count"].dtype == torch.int64
    prototypes = sum(size / 41 * upload.prototypes for size, upload in zip(SIZES, uploads, strict=True))
    torch.testing.assert_close(weights["prototypes"], prototypes)
    head = fusion.head(uploads, [encoder], view())
    features = make_features()[:1]
    torch.testing.assert_close(head(features, IMAGES), features[0] @ prototypes.T)


@pytest.mark.parametrize("name", FUSIONS.names())
def test_scores_of_a_sample_do_not_depend_on_its_neighbours(name: str) -> None:
    fusion, uploads = FUSIONS.get(name)(), make_uploads()
    encoders = fusion.encoders(uploads)
    head, features = fusion.head(uploads, encoders, view()), make_features()[: len(encoders)]
    alone = torch.cat([head(features[:, [n]], IMAGES[[n]]) for n in range(SAMPLES)])
    together = head(features, IMAGES)
    if fusion.transductive:
        assert name.endswith("-batch")
        assert (together - alone).abs().max() > 1e-2
    else:
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_feature_mean_takes_raw_features_and_weighs_a_client_by_their_norm(store: ImageStore) -> None:
    """The diary's rule, on real clients: sum of raw features, normalised then, on mean prototypes."""
    trainer = make_trainer("v4", fusion="feature-mean")
    sites = [make_site(trainer, k, store, own) for k, own in enumerate((range(10), range(10, 24)))]
    for site in sites:
        site.train_round(0)
    uploads = [site.upload() for site in sites]
    images = store.images[:6].float() / 255
    network, total, prototypes = trainer.network.eval(), 0, 0
    for upload, size in zip(uploads, (10, 14), strict=True):
        network.load_state_dict(upload.weights)
        with torch.no_grad():
            total = total + size / 24 * network.encoder((images - 0.5) / 0.25)
        prototypes = prototypes + upload.prototypes / 2
    wanted = F.normalize(total, dim=1) @ prototypes.T
    for name, close in (("feature-mean", True), ("normalised-feature-mean", False)):
        server = Server(make_setup("v4", fusion=name), CPU)
        server.hold(uploads)
        got = server.fuse()(images)
        assert torch.allclose(got, wanted, atol=1e-4) is close
