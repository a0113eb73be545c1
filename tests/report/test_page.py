"""report.html, for runs of every kind."""

import gzip
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from anchorfl import Experiment
from anchorfl.fusion.class_mean import ClassMean
from anchorfl.report.colours import fusion_colour
from anchorfl.report.diagnosis import show_diagnosis
from anchorfl.report.page import page_data, write_page
from anchorfl.runs import Run, read_run
from tests.conftest import RECORDS, command


def data_in(page: Path) -> dict[str, Any]:
    text = page.read_text()
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert found
    content: dict[str, Any] = json.loads(found.group(1))
    return content


def test_the_page_holds_what_the_run_recorded(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-gamma-svhn-seed1")
    content = data_in(write_page(run, tmp_path / "r.html"))
    assert content["title"] == "v12-gamma on svhn"
    assert {each["name"]: each["value"] for each in content["accuracy"]["others"]} == {
        "class-mean": "81.3 %",
        "best single client": "55.4 %",
    }
    raw = max(record["lambda_raw"] for own in run.clients.values() for record in own)
    assert dict(content["numbers"])["largest lambda"] == f"{raw:.3g}"
    assert "22.9 where 58.9" in str(content["verdicts"])
    assert "sigma_momentum" in str(content["texts"])


def test_a_finished_run_has_a_page_with_confusion_and_environment(tmp_path: Path) -> None:
    result = Experiment("v4", train={"rounds": 1}, out=tmp_path / "run").run()
    content = data_in(result.folder / "report.html")
    first = content["confusion"][0]
    assert first["fusion"] == "sketch-guided"
    matrix = np.array([row[1:] for row in first["rows"]])
    assert matrix.trace() / matrix.sum() == pytest.approx(result.accuracy["sketch-guided"])
    told = dict(content["numbers"])
    assert any(name.startswith("sketch-guided, per image") for name in told)
    assert told["sketch-guided, calibration error"].endswith(" %")
    assert "torch:" in str(content["texts"])
    assert [chart["title"] for chart in content["charts"]] == [
        "test accuracy, %",
        "base loss B",
        "prototype norms: classes held (solid), others (dashed)",
        "encoder's share of the squared gradient",
        "clip factor",
    ]


def test_many_clients_are_shown_by_their_spread(tmp_path: Path) -> None:
    partition = {"clients": 100, "kind": "iid"}
    experiment = Experiment("v12", train={"rounds": 1}, partition=partition, out=tmp_path / "run")
    run = read_run(experiment.run().folder)
    charts = page_data(run)["charts"]
    assert max(len(chart["series"]) for chart in charts) <= 9
    raw = next(s for c in charts for s in c["series"] if s["name"] == "raw lambda, largest")
    assert raw["y"] == [max(own[0]["lambda_raw"] for own in run.clients.values())]
    assert len(page_data(run)["partition"]["rows"]) == 100


def test_a_failed_run_and_one_that_was_killed_have_a_page(tmp_path: Path) -> None:
    def broken(event: object) -> None:
        if type(event).__name__ == "RoundEnded":
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        Experiment("v7", train={"rounds": 3}, out=tmp_path / "run").run(broken)
    content = data_in(tmp_path / "run" / "report.html")
    assert ["status", "failed"] in content["numbers"]
    assert "The run failed; " in str(content["verdicts"])
    (tmp_path / "run" / "summary.json").unlink()
    done = command("report", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "is still going, or was killed" in str(data_in(tmp_path / "run" / "report.html")["verdicts"])


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("runs") / "v12"
    return Experiment("v12", train={"rounds": 2}, seed=1, out=out).run().run


def test_accuracy_comes_first_with_its_test_images_and_its_worst_class(digits: Run) -> None:
    head, summary = page_data(digits)["accuracy"], digits.summary
    matrix = np.array((summary.confusion or {})["sketch-guided"])
    assert head["words"] == (
        f"test accuracy of sketch-guided (makes the predictor), {matrix.sum()} test images"
    )
    assert head["value"] == f"{100 * matrix.trace() / matrix.sum():.1f} %"
    shares = matrix.diagonal() / matrix.sum(axis=1)
    assert head["worst"] == f"worst class: {shares.argmin()}, {100 * shares.min():.1f} %"
    assert [each["name"] for each in head["others"]] == [
        "class-mean", "feature-mean", "best single client"
    ]  # fmt: skip


def test_every_class_has_its_accuracy_under_every_fusion(digits: Run) -> None:
    table = page_data(digits)["by_class"]
    assert table["headings"] == ["class", "sketch-guided (primary)", "class-mean", "feature-mean"]
    matrix = np.array((digits.summary.confusion or {})["feature-mean"])
    shares = 100 * matrix.diagonal() / matrix.sum(axis=1)
    assert [float(row[3]) for row in table["rows"]] == pytest.approx(shares.tolist(), abs=0.051)


def test_every_site_has_a_row_of_what_it_holds_and_how_it_trained(digits: Run) -> None:
    table = page_data(digits)["sites"]
    counts = np.array(digits.summary.label_table)
    for client, cells in enumerate(table["rows"]):
        row, own = dict(zip(table["headings"], cells, strict=True)), digits.clients[client]
        assert (row["client"], row["samples"]) == (str(client), f"{counts[client].sum():,}")
        assert row["classes"] == str((counts[client] > 0).sum())
        assert row["largest classes"].startswith(f"{counts[client].argmax()}: {counts[client].max()}")
        shares = counts[client][counts[client] > 0] / counts[client].sum()
        assert float(row["effective classes"]) == pytest.approx(np.prod(shares**-shares), rel=0.01)
        raw = max(record["lambda_raw"] for record in own)
        assert float(row["largest lambda"]) == pytest.approx(raw, rel=0.01)
        assert float(row["base loss B, last"]) == pytest.approx(own[-1]["base_loss"], rel=0.01)
        assert float(row["align loss A, last"]) == pytest.approx(own[-1]["align_loss"], rel=0.01)
        alone = digits.evaluations[-1]["local_accuracy"][client]
        assert row["own model's accuracy, %"] == f"{100 * alone:.1f}"
        assert row["upload"] == f"{digits.summary.upload_bytes[client] / 1e6:.1f} MB"


def test_sites_have_their_names_and_no_column_without_a_number(digits: Run) -> None:
    named = replace(digits.summary, sites=["north", "south", "east", "west", "here"])
    table = page_data(replace(digits, summary=named, metrics=[]))["sites"]
    assert [row[0] for row in table["rows"]] == ["0 north", "1 south", "2 east", "3 west", "4 here"]
    assert table["headings"] == [
        "site", "samples", "classes", "largest classes", "effective classes", "upload"
    ]  # fmt: skip


def test_where_sites_are_real_each_has_its_accuracy_on_what_it_held_out(digits: Run) -> None:
    named = {"sites": ["n", "s", "e", "w", "h"], "site_accuracy": [0.5, None, 0.25, 1.0, 0.75]}
    page = page_data(replace(digits, summary=replace(digits.summary, **named), metrics=[]))
    column = page["sites"]["headings"].index("accuracy on its held-out images, %")
    assert [row[column] for row in page["sites"]["rows"]] == ["50.0", "-", "25.0", "100.0", "75.0"]
    assert page["accuracy"]["words"].startswith("accuracy of sketch-guided")
    assert page["accuracy"]["words"].endswith(" held-out images")
    assert (page["partition"]["who"], page["measured_on"]) == ("site", "held-out images")


def test_a_warning_that_a_verdict_says_stands_there_once(digits: Run) -> None:
    twice = "no upload describes cat (nobody has a sample): expect such images"
    summary = replace(digits.summary, warnings=[twice, "slow disk"])
    warned = {"event": "warning", "kind": "undescribed-classes", "message": twice}
    run = replace(digits, summary=summary, metrics=[*digits.metrics, warned])
    page = page_data(run)
    assert page["warnings"] == ["slow disk"]
    assert "No upload describes cat" in str(page["verdicts"])
    text = io.StringIO()
    show_diagnosis(Console(file=text, width=200), run, summary.warnings)
    assert "describes cat" not in text.getvalue()


def test_a_lambda_that_is_nought_after_every_round_is_none(tmp_path: Path) -> None:
    settings = {"train": {"rounds": 1, "local_epochs": 2}, "partition": {"public": 0.1}}
    run = Experiment("v6", fusion="class-mean", out=tmp_path / "run", **settings).run().run
    assert run.largest_lambda is None
    assert "largest lambda" not in dict(page_data(run)["numbers"])


def test_a_fusion_has_one_colour_everywhere(digits: Run) -> None:
    content = page_data(digits)
    for name in ("sketch-guided", "class-mean", "feature-mean"):
        shown = {each["colour"] for each in content["charts"][0]["series"] if each["name"] == name}
        shown |= {each["colour"] for each in content["confusion"] if each["fusion"] == name}
        head = [content["accuracy"], *content["accuracy"]["others"]]
        shown |= {each["colour"] for each in head if each["name"] == name}
        table = content["by_class"]["colours"].items()
        shown |= {colour for heading, colour in table if heading.split()[0] == name}
        assert shown == {fusion_colour(name)}


def test_terms_of_lambda_are_explained_where_there_is_one(digits: Run) -> None:
    terms = dict(page_data(digits)["glossary"])
    assert {"client", "round", "fusion", "primary", "clip factor", "stationary lambda"} <= set(terms)
    assert terms["class-mean"] == (ClassMean.__doc__ or "").splitlines()[0]
    assert terms["v12"].startswith("Learned, and annealed")
    without = dict(page_data(read_run(RECORDS / "study" / "001" / "v4"))["glossary"])
    assert "client" in without
    assert "stationary lambda" not in without


def test_a_run_of_things_that_are_not_installed_has_a_page_and_a_diagnosis(tmp_path: Path) -> None:
    source, folder = RECORDS / "study" / "001" / "v10", tmp_path / "run"
    folder.mkdir()
    for name in ("metrics.jsonl", "summary.json"):
        text = gzip.decompress((source / f"{name}.gz").read_bytes()).decode()
        (folder / name).write_text(text.replace('"feature-mean"', '"their-fusion"'))
    config = (source / "config.yaml").read_text()
    for here, there in {"method: v10": "method: theirs", "name: cifar10": "name: their-data"}.items():
        assert here in config
        config = config.replace(here, there)
    (folder / "config.yaml").write_text(config)
    sentence = "Method 'theirs' is not installed here: what its lambda should have done is not judged."
    done = command("diagnose", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sentence in " ".join(done.stdout.split())
    done = command("report", "run", "--figures", "figures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = data_in(folder / "report.html")
    assert content["verdicts"][-1] == {"text": sentence, "problem": False}
    assert content["accuracy"]["name"] == "their-fusion"


@pytest.mark.parametrize(
    "lie",
    [
        {"confusion": {"class-mean": [[1, 2]]}},
        {"confusion": "none"},
        {"class_names": ["a"]},
        {"sites": [1, 2]},
        {"upload_bytes": "many"},
        {"local_accuracy": ["x"]},
    ],
)
def test_a_summary_that_cannot_be_true_is_named(
    lie: dict[str, Any], digits: Run, tmp_path: Path
) -> None:
    shutil.copytree(digits.folder, tmp_path / "run")
    summary = tmp_path / "run" / "summary.json"
    summary.write_text(json.dumps({**json.loads(summary.read_text()), **lie}))
    done = command("report", "run", cwd=tmp_path)
    assert done.returncode != 0
    assert "summary.json: is corrupt" in done.stderr


def test_figures_in_other_formats(digits: Run, tmp_path: Path) -> None:
    done = command("report", str(digits.folder), "--figures", "f", "--format", "svg, pdf", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = ("accuracy", "lambda", "losses", "partition")
    names = {path.name for path in (tmp_path / "f").iterdir()}
    assert names == {"lambda.md", *(f"{name}.{kind}" for name in figures for kind in ("pdf", "svg"))}
    assert fusion_colour("sketch-guided") in (tmp_path / "f" / "accuracy.svg").read_text()
    done = command("report", str(digits.folder), "--figures", "f", "--format", "gif", cwd=tmp_path)
    assert done.returncode != 0
    assert "--format gif: choose from png, pdf, svg" in " ".join(done.stderr.split())


def test_figures_and_lambda_tables_for_a_paper(tmp_path: Path) -> None:
    shutil.copytree(RECORDS / "v12-svhn-seed1", tmp_path / "v12")
    done = command("report", "v12", "--figures", "figures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == ["accuracy.png", "lambda.md", "lambda.png", "losses.png", "partition.png"]
    text = (tmp_path / "figures" / "lambda.md").read_text()
    assert "| 14 | 959,527 | 0.720 | 690,859 | 34,483,496 | 55.6 | 74.2 |" in text
    assert "| round | client 0 | client 1 | client 2 | client 3 | client 4 |" in text
    assert "| 10 | 10.9" in text
