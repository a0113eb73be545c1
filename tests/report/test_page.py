"""report.html, in a real browser where there is one, and for runs of every kind."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anchorfl import Experiment
from anchorfl.report.page import page_data, write_page
from anchorfl.runs import read_run
from tests.conftest import RECORDS, command

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


def open_in_browser(page: Path, tmp_path: Path) -> tuple[str, str, str]:
    """(document after its scripts ran, what the browser logged, its network log)."""
    network = tmp_path / "network.json"
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            f"--log-net-log={network}", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=5000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout, done.stderr, network.read_text()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("source", ["v12-svhn-seed1", "run"])
def test_a_browser_draws_every_plot_without_error_or_network(source: str, tmp_path: Path) -> None:
    if source == "run":
        folder = Experiment("v12", train={"rounds": 3}, seed=1, out=tmp_path / "run").run().folder
        page, run = folder / "report.html", read_run(folder)
    else:
        run = read_run(RECORDS / source)
        page = write_page(run, tmp_path / "report.html")
    document, log, network = open_in_browser(page, tmp_path)
    assert "CONSOLE" not in log, log
    initiators = set(re.findall(r'"initiator":"([^"]+)"', network))  # a page on disk is "null"
    assert initiators <= {"not an origin"}, "the page, not the browser itself, asked another host"
    assert not re.findall(r'(?:src|href)="(?!data:)', page.read_text())
    charts = page_data(run)["charts"]
    assert document.count("<figure>") == len(charts) == 8
    drawn = re.search(r'data-drawn="(\d+)"', document)
    assert drawn
    every = [series for chart in charts for series in chart["series"]]
    assert int(drawn.group(1)) == sum(any(y is not None for y in series["y"]) for series in every)


def data_in(page: Path) -> dict[str, Any]:
    text = page.read_text()
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert found
    content: dict[str, Any] = json.loads(found.group(1))
    return content


def test_the_page_holds_what_the_run_recorded(tmp_path: Path) -> None:
    content = data_in(write_page(read_run(RECORDS / "v12-gamma-svhn-seed1"), tmp_path / "r.html"))
    assert content["title"] == "v12-gamma on svhn"
    assert ["class-mean, final accuracy", "81.3 %"] in content["numbers"]
    assert "22.9 where 58.9" in str(content["verdicts"])
    assert "sigma_momentum" in str(content["texts"])


def test_a_finished_run_has_a_page_with_confusion_and_environment(tmp_path: Path) -> None:
    result = Experiment("v4", train={"rounds": 1}, out=tmp_path / "run").run()
    content = data_in(result.folder / "report.html")
    first = content["confusion"][0]
    assert first["fusion"] == "sketch-guided"
    matrix = np.array([row[1:-1] for row in first["rows"]])
    assert matrix.trace() / matrix.sum() == pytest.approx(result.accuracy["sketch-guided"])
    told = dict(content["numbers"])
    assert any(name.startswith("sketch-guided, per image") for name in told)
    assert told["sketch-guided, calibration error"].endswith(" points")
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
    raw = next(s for c in charts for s in c["series"] if s["name"] == "largest lambda_raw")
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


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_hovering_and_hiding_work_and_odd_class_names_are_harmless(tmp_path: Path) -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    odd = {**(run.summary or {}), "class_names": ["<!--<script>", "</script>", *"abcdefgh"]}
    page = write_page(replace(run, summary=odd), tmp_path / "report.html")
    play = """<script>
    const plot = document.querySelector("svg"), box = plot.getBoundingClientRect();
    const event = (kind, x) =>
      plot.dispatchEvent(new PointerEvent(kind, {clientX: box.left + x * box.width}));
    event("pointermove", .5);
    document.body.dataset.tip = document.querySelector(".tip").textContent;
    const before = plot.querySelectorAll(".curve").length;
    document.querySelector(".legend button").click();
    document.body.dataset.hidden = before - plot.querySelectorAll(".curve").length;
    event("pointerdown", .2); event("pointerup", .6);
    document.body.dataset.zoomed = plot.textContent;
    </script>"""
    page.write_text(page.read_text().replace("</body>", play + "</body>"))
    document, log, _ = open_in_browser(page, tmp_path)
    assert "CONSOLE" not in log, log
    assert 'data-hidden="1"' in document
    assert re.search(r'data-tip="round \d+: feature-mean [\d.]+, class-mean', document)
    assert re.search(r'data-zoomed="[^"]*15[^"]*"', document)
    assert "&lt;!--&lt;script&gt;" in document
