import pytest
import torch

from anchorfl import Experiment
from anchorfl.fusion.sketched import SketchGuided
from anchorfl.measures import calibration_error, fit_temperature


def test_the_temperature_of_drawn_labels_is_found_again() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(20_000, 5, generator=draw)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=draw)[:, 0]
    for factor in (0.01, 1.0, 40.0):
        assert fit_temperature(factor * logits, labels) == pytest.approx(factor, rel=0.03)
    assert calibration_error(logits.softmax(dim=1), labels) < 0.01
    assert calibration_error((4 * logits).softmax(dim=1), labels) > 0.05


def test_calibration_error_counts_gaps_by_the_size_of_their_bin() -> None:
    sure, unsure = torch.tensor([0.9, 0.1]), torch.tensor([0.5, 0.5])
    probabilities = torch.stack([sure] * 3 + [unsure])
    labels = torch.tensor([0, 0, 1, 0])
    wanted = (3 * abs(2 / 3 - 0.9) + abs(1 - 0.5)) / 4
    assert calibration_error(probabilities, labels) == pytest.approx(wanted, abs=1e-6)


def test_numbers_that_are_not_finite_count_as_no_confidence() -> None:
    probabilities = torch.tensor([[float("nan"), float("nan")], [1.0, 0.0]])
    assert calibration_error(probabilities, torch.tensor([1, 0])) == 0


def test_held_out_data_set_the_temperature_of_a_run_and_of_its_predictor(tmp_path) -> None:  # type: ignore[no-untyped-def]
    common = {"seed": 2, "device": "cpu", "fusion": "sketch-guided,class-mean"}
    data = {"validation": 0.2}
    result = Experiment("v4", data=data, train={"rounds": 2}, out=tmp_path / "run", **common).run()
    fitted = result.summary.temperature
    assert fitted["sketch-guided"] != SketchGuided.score_temperature
    assert result.predictor.card.temperature == fitted["sketch-guided"]
    assert 0 <= result.summary.calibration_error["sketch-guided"] < 0.1
    images = torch.rand(4, 1, 8, 8)
    probabilities = result.predictor.probabilities(images)
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(4))
    wanted = (result.predictor(images) / fitted["sketch-guided"]).softmax(dim=1)
    torch.testing.assert_close(probabilities, wanted)
