from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from anchorfl.config import CONFIG_FORMAT, Config
from anchorfl.errors import UserError
from anchorfl.fusion import built_fusions
from anchorfl.fusion.averages import SoftmaxMean
from anchorfl.objective import NoAlignment
from anchorfl.objective.balance.fixed import Fixed
from anchorfl.options import build, option
from anchorfl.runs import read_run
from anchorfl.settings import (
    fill_by_images,
    flatten,
    parse_words,
    read_preset,
    refuse_unused,
    resolve,
)


def test_defaults_are_the_published_ones() -> None:
    config = resolve("v4", {"data.name": "cifar10"})
    train = config.train
    assert (train.lr, train.momentum, train.batch_size, train.clip_norm) == (0.05, 0.9, 512, 1.0)
    assert not train.reset_optimizer
    assert config.model.name == "resnet18"
    assert list(config.fusion) == ["sketch-guided", "class-mean", "feature-mean"]
    assert config.align == NoAlignment()
    assert resolve("v7", {}).align == Fixed(lambda_=5.0)


def test_what_is_left_unset_follows_the_data() -> None:
    assert resolve("v4", {"data.name": "mnist"}).model.name == "small-cnn"
    flips = {
        name: resolve("v4", {"data.name": name}).data.flip for name in ("cifar10", "svhn", "digits")
    }
    assert flips == {"cifar10": True, "svhn": False, "digits": False}
    assert resolve("v4", {"data.name": "svhn", "data.flip": "true"}).data.flip
    crops = {
        name: resolve("v4", {"data.name": name}).data.crop for name in ("cifar10", "svhn", "digits")
    }
    assert crops == {"cifar10": 0.2, "svhn": 0.5, "digits": 0.6}
    assert resolve("v4", {"seed": "7"}).partition.seed == 7
    assert resolve("v4", {"seed": "7", "partition.seed": "2"}).partition.seed == 2


def test_words_become_typed_values() -> None:
    words = parse_words(["train.lr=1e-3", "train.reset_optimizer=true", "partition.clients=3"])
    config = resolve(
        "v4", {**words, "fusion": "softmax-mean, iffi", "fusion.softmax-mean.temperature": "2"}
    )
    assert config.train.lr == 1e-3
    assert config.train.reset_optimizer is True
    assert config.partition.clients == 3
    assert resolve("v4", {"seed": "010"}).seed == 10
    assert resolve("v4", {"model.name": "own.py:x"}).model.name == f"{Path.cwd()}/own.py:x"
    assert list(config.fusion) == ["softmax-mean", "iffi"]
    assert config.fusion["softmax-mean"] == {"temperature": 2.0}
    assert built_fusions(config.fusion)["softmax-mean"] == SoftmaxMean(temperature=2.0)


def test_a_config_survives_its_file(tmp_path: Path) -> None:
    config = resolve(
        "v7",
        {
            "align.lambda": 2.5,
            "fusion": "softmax-mean",
            "fusion.softmax-mean.temperature": 3,
            "seed": 4,
        },
    )
    content = {"format": CONFIG_FORMAT, **config.to_dict()}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(content))
    settings = read_preset(tmp_path / "config.yaml")
    again: Config = resolve(str(settings.pop("method")), settings)
    assert again == config


def test_a_partition_file_implies_its_kind() -> None:
    assert resolve("v4", {"partition.file": "p.json"}).partition.kind == "file"


def test_nested_settings_are_flattened() -> None:
    assert flatten({"train": {"rounds": 3}, "seed": 1}) == {"train.rounds": 3, "seed": 1}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train.round": "3"}, r"train\.round=3: unknown key; did you mean train\.rounds\?"),
        ({"trian.rounds": "3"}, r"trian\.rounds=3: unknown key; did you mean train\.rounds\?"),
        ({"sed": "3"}, r"sed=3: unknown key; did you mean seed\?"),
        (
            {"align.lambda": "3"},
            r"align\.lambda=3: method v4 has no such key; fedproto, v7, v7-linear have",
        ),
        ({"data": "digits"}, r"data=digits: data is a section; write data\.KEY=VALUE"),
        ({"partition.alpha": "-1"}, r"partition\.alpha=-1: must be a finite number above 0"),
        ({"partition.alpha": "nan"}, r"partition\.alpha=nan: must be a finite number above 0"),
        ({"partition.clients": "0"}, r"partition\.clients=0: must be a whole number of at least 1"),
        ({"partition.clients": "2.5"}, "whole number"),
        (
            {"partition.kind": "dirichlett"},
            r"partition\.kind=dirichlett: .*; did you mean dirichlet\? \(known: .*diary-scrambled\)",
        ),
        ({"partition.public": "1"}, "below 1"),
        ({"train.rounds": "many"}, r"train\.rounds=many: must be a whole number"),
        ({"train.rounds": "true"}, "whole number"),
        ({"train.lr": "fast"}, r"train\.lr=fast: must be a finite number above 0"),
        ({"train.reset_optimizer": "maybe"}, "must be true or false"),
        ({"train.schedule": "{"}, "one of constant, linear, cosine"),
        ({"seed": "-1"}, r"^seed=-1: must be a whole number of at least 0"),
        ({"partition.file": "p.json", "partition.kind": "iid"}, r"needs partition\.kind=file"),
        ({"data.name": "cifar11"}, "data.name=cifar11: unknown data set; did you mean cifar10"),
        ({"fusion": "feature-men"}, "fusion=feature-men: unknown fusion; did you mean feature-mean"),
        ({"fusion": ","}, "name at least one"),
        ({"fusion.softmax-mean.temperature": "2"}, "not among fusion=sketch-guided"),
        ({"fusion.feature-mean.q": "2"}, r"fusion\.feature-mean\.q=2: unknown key"),
    ],
)
def test_mistakes_name_the_key_the_value_and_what_is_allowed(
    settings: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        resolve("v4", settings)
    assert "\n" not in str(caught.value)


def test_other_mistakes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown method 'v44'; did you mean v4"):
        resolve("v44", {})
    with pytest.raises(UserError, match="expected key=value"):
        parse_words(["train.rounds"])
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "empty.yaml").write_text("train: {rounds: 1}")
    for name, message in [
        ("none", "No such file"),
        ("bad", "is not valid YAML"),
        ("empty", "needs a line such as method: v4"),
    ]:
        with pytest.raises(UserError, match=message):
            read_preset(tmp_path / f"{name}.yaml")


def test_an_option_class_of_ones_own_is_checked_the_same_way() -> None:
    @dataclass(frozen=True)
    class Own:
        strength: float = option(1.0, "how strong", at_least=0)
        lambda_: int | None = option(None, "a keyword's name")

    assert build(Own, {"strength": "2", "lambda": "3"}, "own") == Own(2.0, 3)
    with pytest.raises(UserError, match=r"own\.strength=-2: must be a finite number of at least 0"):
        build(Own, {"strength": "-2"}, "own")


def test_a_key_of_another_method_names_the_methods_that_have_it() -> None:
    with pytest.raises(UserError, match=r"method v12 has no such key; v12-gamma, .*closed-form have"):
        resolve("v12", {"align.gamma": "0.1"})
    with pytest.raises(UserError, match=r"align\.gama=0\.1: unknown key; did you mean align\.gamma\?"):
        resolve("v12-gamma", {"align.gama": "0.1"})


def test_a_range_of_lambda_must_be_one() -> None:
    with pytest.raises(
        UserError, match=r"align\.lambda_min=5\.0: must not be above align\.lambda_max=1\.0"
    ):
        resolve("v9", {"align.lambda_min": 5, "align.lambda_max": 1})


@pytest.mark.parametrize("written", ["", "format: 2\n", "format: 5\n", "format: 7\n", "format: x\n"])
def test_a_run_of_another_format_is_refused_in_one_line(written: str, tmp_path: Path) -> None:
    """Settings of earlier formats meant something else; the first had no number."""
    content = yaml.safe_dump(resolve("v4", {"device": "cpu"}).to_dict())
    (tmp_path / "config.yaml").write_text(written + content)
    number = written.removeprefix("format:").strip() or "1"
    wanted = rf"config\.yaml: is of format {number}; this anchorfl reads format {CONFIG_FORMAT}"
    for read in (lambda: read_preset(tmp_path / "config.yaml"), lambda: read_run(tmp_path)):
        with pytest.raises(UserError, match=wanted) as told:
            read()
        assert "\n" not in str(told.value)
    (tmp_path / "config.yaml").write_text(f"format: {CONFIG_FORMAT}\n{content}")
    assert read_preset(tmp_path / "config.yaml")["data.name"] == "digits"


def test_an_option_of_a_usual_fusion_goes_without_naming_the_fusions() -> None:
    config = resolve("v4", {"fusion.class-mean.q": "1"})
    assert list(config.fusion) == ["sketch-guided", "class-mean", "feature-mean"]
    assert config.fusion["class-mean"]["q"] == 1.0


@pytest.mark.parametrize(
    ("images", "pixels", "clients", "encoder", "batch"),
    [
        (480, 32, 5, "small-cnn", 32),
        (4_999, 32, 5, "small-cnn", 64),
        (5_000, 32, 5, "resnet18", 64),
        (5_000, 28, 5, "small-cnn", 64),
        (50_000, 32, 5, "resnet18", 512),
        (50_000, 32, 100, "resnet18", 32),
    ],
)
def test_ones_own_images_choose_encoder_and_batch_by_their_number_and_size(
    images: int, pixels: int, clients: int, encoder: str, batch: int
) -> None:
    for device in ("cpu", "cuda"):
        settings = {"data.name": "folder", "partition.clients": clients, "device": device}
        config = resolve("v4", settings)
        assert (config.model.name, config.train.batch_size) == (None, None)
        config = fill_by_images(config, pixels, images)
        assert (config.model.name, config.train.batch) == (encoder, batch)
    own = {**settings, "model.name": "resnet18", "train.batch_size": 7}
    config = fill_by_images(resolve("v4", own), pixels, images)
    assert (config.model.name, config.train.batch) == ("resnet18", 7)


def test_a_key_that_no_data_set_reads_is_refused() -> None:
    with pytest.raises(UserError, match=r"data\.root: nothing reads it with data\.name=digits"):
        refuse_unused({"data.root": "x"}, "digits", "digits")
    with pytest.raises(UserError, match=r"data\.size: nothing reads it with data\.name=digits, svhn"):
        refuse_unused(["data.size"], "digits", "svhn")
    refuse_unused(["data.root"], "digits", "svhn")
    refuse_unused(["data.root", "data.size", "data.holdout"], "digits", "folder")
