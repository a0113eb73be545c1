"""server.robust: who is left out, who is not, and what it costs the honest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.tables.security import by_lie

from anchorfl import Experiment
from anchorfl.describe import factored, second_moments, with_constant
from anchorfl.fusion import FUSIONS
from anchorfl.messages import Upload
from anchorfl.server.robust import believe, contradictions, tells_apart
from anchorfl.tensors import prefixed
from tests.conftest import RECORDS


def cells(*rows: tuple[int, int, list[float], int]) -> tuple[torch.Tensor, torch.Tensor]:
    """(site, class, mean without its constant, count) -> means and counts as the rule takes them."""
    means = torch.full((3, 3, 4), torch.nan, dtype=torch.float64)
    counts = torch.zeros(3, 3, dtype=torch.int64)
    for site, label, mean, count in rows:
        means[site, label] = torch.tensor([*mean, 1.0])
        counts[site, label] = count
    return means, counts


A, B, C = [0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.1, 0.9]


def test_honest_sites_do_not_contradict_each_other() -> None:
    assert not contradictions(*cells((0, 0, A, 100), (1, 0, A, 90), (1, 1, B, 80), (2, 2, C, 70)))


def test_two_names_for_one_class_and_one_name_for_two_are_contradictions() -> None:
    assert contradictions(*cells((0, 0, A, 100), (1, 1, A, 90), (2, 2, C, 50))) == {(0, 1)}
    assert contradictions(*cells((0, 0, A, 100), (1, 0, B, 90), (2, 2, C, 50))) == {(0, 1)}


def an_upload(site: str, counts: list[int], means: torch.Tensor) -> Upload:
    statistics = {
        "class_means/mean": means,
        "sketch_moments/cross": torch.zeros(4, 3),
        "sketch_moments/triangle": torch.zeros(10),
    }
    return Upload(site, torch.tensor(counts), {}, statistics)


def test_no_site_counts_for_more_than_two_of_the_middle_size() -> None:
    means = torch.eye(3)
    uploads = [an_upload(str(k), [count, 0, 0], means) for k, count in enumerate((100, 120, 90_000))]
    assert [each.samples for each in believe("capped", uploads, 10).uploads] == [100, 120, 240]


def test_an_encoder_whose_means_coincide_is_not_trusted() -> None:
    apart, alike = torch.eye(3) * 0.95, torch.full((3, 3), 0.5) + 0.01 * torch.eye(3)
    assert tells_apart(an_upload("0", [50, 50, 50], apart), 10)
    assert not tells_apart(an_upload("0", [50, 50, 50], alike), 10)
    assert tells_apart(an_upload("0", [50, 0, 0], alike), 10)


def test_off_believes_everybody() -> None:
    uploads = [an_upload("0", [1, 2, 3], torch.eye(3))]
    assert believe("off", uploads, 10).uploads == uploads


def a_site(name: str, classes: dict[int, list[float]], count: int = 100) -> Upload:
    """A site whose class means and sketches are the same rows."""
    cross, means = torch.zeros(4, 3), torch.zeros(3, 3)
    counts = [count if label in classes else 0 for label in range(3)]
    for label, mean in classes.items():
        means[label] = torch.tensor(mean)
        cross[:, label] = count * torch.tensor([*mean, 1.0])
    upload = an_upload(name, counts, means)
    return replace(upload, statistics={**upload.statistics, "sketch_moments/cross": cross})


def test_a_liar_whose_sums_travel_in_8_bits_is_found_and_counts_for_nothing() -> None:
    """And who counts for less counts for less in sums that are plain again."""
    draw = torch.Generator().manual_seed(0)

    def site(name: str, held: dict[int, list[float]], count: int = 100) -> Upload:
        upload = a_site(name, held, count)
        rows = {
            label: torch.tensor(mean) + 0.01 * torch.randn(count, 3, generator=draw)
            for label, mean in held.items()
        }
        labels = [label for label in rows for _ in range(count)]
        sums = second_moments(with_constant(torch.cat([*rows.values()])), torch.eye(3)[labels])
        short = prefixed("sketch_moments", factored(sums, "fp8", 3))
        means = {"class_means/mean": upload.statistics["class_means/mean"]}
        return replace(upload, statistics={**means, **short})

    honest = [site("0", {0: A, 1: B}), site("1", {1: B, 2: C}), site("2", {0: A, 2: C}, 1000)]
    belief = believe("cross-checked", [*honest, site("3", {1: A, 0: B})], 10)
    assert belief.silenced == {"3"}
    counts = [float(each.statistic("sketch_moments")["cross"][-1].sum()) for each in belief.uploads]
    assert counts[:3] == pytest.approx([200, 200, 400], rel=1e-3)


def test_whom_several_contradict_is_left_out_and_two_who_contradict_each_other_are_not() -> None:
    honest = [a_site("0", {0: A, 1: B}), a_site("1", {1: B, 2: C}), a_site("2", {0: A, 2: C})]
    liar = a_site("3", {1: A, 0: B})
    belief = believe("cross-checked", [*honest, liar], 10)
    assert belief.silenced == {"3"}
    assert belief.doubts == ["site 3 is left out: sites 0, 1, 2 contradict it"]
    assert [each.site for each in belief.of(FUSIONS.get("sketch-guided")())] == ["0", "1", "2"]
    joint = belief.of(FUSIONS.get("joint-ridge")())
    assert [each.samples for each in joint] == [200, 200, 200, 0]
    alone = [a_site("0", {0: A}), a_site("1", {1: A}), a_site("2", {2: C})]
    belief = believe("cross-checked", alone, 10)
    assert belief.silenced == frozenset()
    assert belief.doubts == ["sites 0 and 1 contradict each other"]


def test_fewer_than_half_of_the_sites_are_left_out() -> None:
    """Three lie, and two of them are left out: without a third, half of all would be silent."""
    strange, other = [0.0, 0.1, 0.9], [-0.9, 0.0, 0.0]
    liars = [
        a_site("0", {0: strange, 1: B}),
        a_site("1", {0: strange}),
        a_site("2", {1: other}),
    ]
    honest = [a_site("3", {0: A, 1: B}), a_site("4", {0: A, 1: B}), a_site("5", {0: A})]
    belief = believe("cross-checked", [*liars, *honest], 10)
    assert belief.silenced == {"0", "1"}
    assert [each.site for each in belief.of(FUSIONS.get("sketch-guided")())] == ["2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("rule", "started"), [("capped", False), ("cross-checked", False), ("cross-checked", True)]
)
def test_honest_runs_lose_nothing(rule: str, started: bool, tmp_path: Path, small_start: Path) -> None:
    settings = {
        "train": {"rounds": 8},
        "fusion": "sketch-guided",
        "seed": 2,
        **({"model": {"weights": str(small_start)}} if started else {}),
    }
    plain = Experiment("v4", **settings, out=tmp_path / "off").run()
    robust = Experiment("v4", **settings, server={"robust": rule}, out=tmp_path / rule).run()
    assert robust.summary.warnings == []
    assert robust.accuracy["sketch-guided"] > plain.accuracy["sketch-guided"] - 0.01
    images = torch.rand(4, *robust.predictor.shape)
    assert robust.predictor(images).isfinite().all()


def test_on_the_record_a_liar_is_bounded() -> None:
    """Flipped labels over seeds and liars: found wherever several sites share its classes."""
    found = by_lie(RECORDS / "lies.jsonl")
    for fusion in ("sketch-guided", "class-mean", "joint-sketch-ridge"):
        lied = found[0.05, "labels flipped", fusion, "off"]
        checked = found[0.05, "labels flipped", fusion, "cross-checked"]
        assert checked.worst > 15 + lied.worst
        assert checked.mean > 4 + lied.mean
        assert found[0.5, "labels flipped", fusion, "cross-checked"].worst > 97
        honest = found[0.05, "honest", fusion, "off"].mean
        assert found[0.05, "honest", fusion, "cross-checked"].mean > honest - 0.5
