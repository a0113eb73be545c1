"""Every method by name, on digits and on clients that are hard to train on."""

import math
from pathlib import Path

import pytest

from anchorfl import Experiment
from anchorfl.data import ImageStore
from anchorfl.events import as_record
from anchorfl.methods import METHODS
from anchorfl.objective import Moment
from anchorfl.settings import all_keys, resolve
from tests.conftest import command, make_site, make_trainer

NAMES = [
    "v4",
    "fedavg",
    "fedproto",
    "cross-entropy",
    "simclr",
    "v4-views",
    "v6",
    "v6-code",
    "v6-curriculum",
    "v6-adaptive",
    "v7",
    "v7-linear",
    "v9",
    "v9-linear",
    "v10",
    "v10-decoupled",
    "v11-linear",
    "v11-cosine",
    "v12",
    "v12-cosine",
    "v12-raw",
    "v12-gamma",
    "weight-annealed",
    "log-annealed",
    "log-annealed-gamma",
    "closed-form",
    "revised-uncertainty",
]
LINEAR = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
COSINE = [1.0, 0.975, 0.904, 0.793, 0.654, 0.5, 0.345, 0.206, 0.095, 0.024]


def test_the_table_holds_the_diarys_methods_and_their_cures() -> None:
    assert sorted([*NAMES, "none"]) == sorted(name for name in METHODS.names() if ":" not in name)


@pytest.mark.parametrize("method", [*NAMES, "torchjd:DWA", "v6:coupled", "v6:torchjd:UW"])
def test_every_method_runs_and_reports_finite_lambdas(method: str, tmp_path: Path) -> None:
    settings = {"rounds": 2, **({"local_epochs": 2} if method.startswith("v6") else {})}
    result = Experiment(method=method, train=settings, seed=1, out=tmp_path / "run").run()
    clients = [record for record in result.metrics if record["event"] == "client"]
    assert len(clients) == 10
    aligned = method not in ("v4", "cross-entropy", "simclr", "v4-views", "fedavg")
    for record in clients:
        assert (record["lambda_effective"] is not None) is aligned
        assert (record["align_loss"] is not None) is aligned
        shares = [
            record.get(f"gradient_share_{group}", 0) for group in ("encoder", "prototypes", "sigmas")
        ]
        assert sum(shares) == pytest.approx(1, abs=1e-3)
        assert record["prototype_norm_seen"] > 0
    usual = "sketch-guided,class-mean,feature-mean"
    assert ",".join(result.accuracy) == METHODS.get(method).defaults.get("fusion", usual)


@pytest.mark.parametrize(("method", "wanted"), [("v11-linear", LINEAR), ("v11-cosine", COSINE)])
def test_annealing_follows_seed_000s_factors(method: str, wanted: list[float]) -> None:
    """Ten rounds of ten epochs: the factor is constant within a round."""
    balance = resolve(method, {}).align
    factors = [balance.anneal(Moment(epoch, 100, 10)) for epoch in range(100)]
    for epoch, factor in enumerate(factors):
        assert factor == pytest.approx(wanted[epoch // 10], abs=1e-3)
    falling = resolve(method, {"align.progress": "epoch"}).align
    assert falling.anneal(Moment(19, 100, 10)) < falling.anneal(Moment(10, 100, 10))


def test_a_method_names_the_diarys_settings_where_ours_differ(tmp_path: Path) -> None:
    shown = command("methods", "v11-linear", cwd=tmp_path).stdout
    ours, diarys = shown.split("The diary's own settings")
    assert "align.progress=round" in ours
    for words in ("align.start=entropy", "align.lambda_max=20.0", "align.sigma_lr=0.005"):
        assert words in diarys
        assert words not in ours
    assert "train.reset_optimizer=true" in diarys


def test_options_of_balance_and_target_never_share_a_name() -> None:
    for name in NAMES:
        keys = all_keys(name)
        assert len(keys) == len(set(keys)), name


@pytest.mark.parametrize("method", ["v6-curriculum", "v6-adaptive", "v6-code", "v6:coupled"])
def test_the_banks_contrast_stands_in_the_place_of_the_unweighted_one(method: str) -> None:
    assert "supervised_contrast" not in METHODS.get(method).base_terms
    assert "supervised_contrast" in METHODS.get("v6").base_terms


@pytest.mark.parametrize("method", [name for name in NAMES if not name.startswith("v6")])
@pytest.mark.parametrize("own", [[0], [0, 4], [0, 4, 8, 12, 16]])
def test_a_tiny_or_single_class_client_gives_finite_numbers(
    method: str, own: list[int], store: ImageStore
) -> None:
    trainer = make_trainer(method, **{"train.rounds": 4, "train.batch_size": 3})
    site = make_site(trainer, 0, store, own)
    for number in range(4):
        record = as_record(site.train_round(number))
        for name, value in record.items():
            assert value is None or isinstance(value, str) or math.isfinite(value), name
    assert all(value.isfinite().all() for value in site.state.values())


def test_v12_and_v12_gamma_differ_in_gamma_alone() -> None:
    first, second = resolve("v12", {}).to_dict(), resolve("v12-gamma", {}).to_dict()
    assert second["align"].pop("gamma") == 0.05
    assert first.pop("method") != second.pop("method")
    assert first == second


@pytest.mark.parametrize("method", NAMES)
def test_a_method_is_shown_with_formula_source_and_defaults(method: str, tmp_path: Path) -> None:
    from rich.console import Console

    from anchorfl.report.methods import show_methods

    console = Console(width=120, record=True, file=(tmp_path / "log").open("w"))
    show_methods(console, method, fusions=False)
    text = console.export_text()
    assert text.startswith(f"{method}: ")
    assert "see" in text
    assert "source" in text


def test_a_preset_serves_another_method_without_keys_it_does_not_have(tmp_path: Path) -> None:
    preset = Path(__file__).parents[1] / "presets" / "v12-gamma-digits.yaml"
    words = ("method=v4", "train.rounds=1", "out=run")
    done = command("run", str(preset), *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "v4 does not take the preset's align.classes, align.schedule" in done.stderr
    assert "v4 on digits" in done.stdout
