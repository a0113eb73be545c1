from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from anchorfl.data import ImageFacts, ImageStore
from anchorfl.errors import UserError
from anchorfl.messages import Upload
from anchorfl.nn import build_encoder, build_network
from anchorfl.server import Server
from tests.conftest import CPU, make_site, make_trainer

COLOUR = ImageFacts((3, 32, 32), 10, (0.5,) * 3, (0.25,) * 3)
OWN = """
from torch import nn

class Flat(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(shape[0] * shape[1] * shape[2], 12)

    def forward(self, images):
        return self.layer(images.flatten(1))

def nothing(shape):
    return "an encoder"

def broken(shape):
    raise KeyError("oh")

def mixing(shape):
    class Mixing(nn.Module):
        def forward(self, images):
            return images.flatten(1).mean(0, keepdim=True)
    return Mixing()

class Lonely(nn.Module):
    def __init__(self, shape):
        super().__init__()

    def forward(self, images):
        return images.mean()

def tied(shape):
    first = nn.Linear(shape[0] * shape[1] * shape[2], 6)
    second, third = nn.Linear(6, 6), nn.Linear(6, 6)
    third.weight = second.weight
    return nn.Sequential(nn.Flatten(), first, second, third)
"""


def test_resnet18_has_its_known_size_and_512_features() -> None:
    network = build_network("resnet18", COLOUR, seed=0)
    assert sum(p.numel() for p in network.encoder.parameters()) == 11_168_832
    assert network.prototypes.shape == (10, 512)
    features = network(torch.rand(2, 3, 32, 32))
    torch.testing.assert_close(features.norm(dim=1), torch.ones(2))


@pytest.mark.parametrize("size", [8, 28])
def test_small_cnn_takes_small_grey_images(size: int) -> None:
    facts = ImageFacts((1, size, size), 10, (0.1,), (0.3,))
    assert build_network("small-cnn", facts, 0)(torch.rand(3, 1, size, size)).shape == (3, 128)


def test_the_seed_fixes_weights_and_prototypes() -> None:
    states = [build_network("small-cnn", COLOUR, seed).state_dict() for seed in (1, 1, 2)]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    for key in ("encoder.0.weight", "prototypes"):
        assert not torch.equal(states[0][key], states[2][key])
    assert states[0]["prototypes"].std() == pytest.approx(1, abs=0.1)


def test_images_are_normalised_inside_the_network() -> None:
    network = build_network("small-cnn", COLOUR, 0).eval()
    images = torch.rand(2, 3, 32, 32)
    direct = network.encoder((images - 0.5) / 0.25)
    torch.testing.assert_close(network(images), torch.nn.functional.normalize(direct, dim=1))


def test_an_encoder_of_ones_own_by_path_and_saved_weights(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    name = f"{tmp_path / 'own.py'}:Flat"
    saved = build_encoder(name, (3, 32, 32)).state_dict()
    save_file(saved, tmp_path / "start.safetensors")
    network = build_network(name, COLOUR, 5, weights=str(tmp_path / "start.safetensors"))
    assert network.prototypes.shape == (10, 12)
    assert torch.equal(network.encoder.layer.weight, saved["layer.weight"])  # type: ignore[union-attr]


def test_saved_weights_may_come_from_torch_batchnorm_or_an_upload(tmp_path: Path) -> None:
    pretrained = torch.nn.BatchNorm2d(32).state_dict()
    network = build_network("small-cnn", COLOUR, 1)
    plain = {
        **network.encoder.state_dict(),
        **{f"1.{name}": value for name, value in pretrained.items()},
    }
    save_file(plain, tmp_path / "torch.safetensors")
    build_network("small-cnn", COLOUR, 0, weights=str(tmp_path / "torch.safetensors"))
    upload = Upload("0", torch.ones(10), network.state_dict())
    (tmp_path / "client.safetensors").write_bytes(upload.to_bytes())
    again = build_network("small-cnn", COLOUR, 0, weights=str(tmp_path / "client.safetensors"))
    assert torch.equal(again.encoder[0].weight, network.encoder[0].weight)


def test_mistakes_with_models_are_named(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "syntax.py").write_text("def (")
    (tmp_path / "bad.safetensors").write_text("nothing")
    save_file({"other": torch.zeros(1)}, tmp_path / "other.safetensors")
    for name, message in [
        ("resnet81", "did you mean resnet18"),
        (f"{tmp_path}/own.py:Missing", "no attribute 'Missing'"),
        (f"{tmp_path}/none.py:X", "no such file"),
        (f"{tmp_path}/own.py:nothing", "not an nn.Module"),
        (f"{tmp_path}/own.py:broken", "KeyError: 'oh'"),
        (f"{tmp_path}/own.py:Lonely", "N x d tensor"),
        (f"{tmp_path}/own.py:mixing", "N x d tensor"),
        (f"{tmp_path}/syntax.py:X", "SyntaxError"),
        (":Foo", "model.name=:Foo"),
        ("no.such.module:X", "ModuleNotFoundError"),
    ]:
        with pytest.raises(UserError, match=message):
            build_network(name, COLOUR, 0)
    for file, message in [
        ("bad", "cannot be read"),
        ("other", "does not fit"),
        ("none", "cannot be read"),
    ]:
        with pytest.raises(UserError, match=message):
            build_network("small-cnn", COLOUR, 0, weights=str(tmp_path / f"{file}.safetensors"))


def test_a_weight_under_two_names_trains_uploads_and_predicts(
    tmp_path: Path, store: ImageStore
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    trainer = make_trainer("v4", **{"model.name": f"{tmp_path}/own.py:tied"})
    site = make_site(trainer, 0, store, range(8))
    site.train_round(0)
    server = Server(trainer.setup, CPU)
    server.hold([site.upload()])
    encoder = server.fuse().encoders[0].encoder
    assert torch.equal(encoder[2].weight, encoder[3].weight)
    assert torch.equal(encoder[2].weight, site.state["weights/encoder.2.weight"])


def test_weights_that_do_not_fit_are_refused() -> None:
    network = build_network("small-cnn", COLOUR, 0)
    weights = network.state_dict()
    weights.pop("prototypes")
    with pytest.raises(UserError, match="prototypes"):
        network.fill(weights)
