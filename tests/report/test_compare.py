import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from anchorfl import Experiment
from anchorfl.errors import UserError
from anchorfl.report.compare import comparison, draws, group_runs
from anchorfl.runs import Run, read_run
from tests.conftest import RECORDS, command


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    place = tmp_path_factory.mktemp("runs")
    found = []
    for method in ("v4", "v7"):
        for seed in (1, 2):
            out = place / f"{method}-{seed}"
            Experiment(method, train={"rounds": 2}, seed=seed, out=out).run()
            found.append(read_run(out))
    return found


def test_runs_that_differ_in_the_seed_alone_are_averaged(runs: list[Run]) -> None:
    headings, rows = comparison(group_runs(runs), "v4")
    assert headings[:5] == ["run", "seeds", "sketch-guided", "class-mean", "feature-mean"]
    assert [row[:2] for row in rows] == [["v4", "1 2"], ["v7", "1 2"]]
    values = [100 * (run.summary.accuracy("sketch-guided") or 0) for run in runs]
    assert rows[0][2].startswith(f"{(values[0] + values[1]) / 2:.2f} +- ")
    difference = (values[2] - values[0] + values[3] - values[1]) / 2
    assert rows[1][5].startswith(f"{difference:.2f} +- ")
    assert rows[0][5] == "0.00 +- 0.00"
    assert rows[1][-1] == "5"
    assert draws(runs) == "The draw varies with the seed."


def test_a_setting_that_differs_makes_a_group_of_its_own(runs: list[Run], tmp_path: Path) -> None:
    Experiment("v7", train={"rounds": 2}, align={"lambda": 1.0}, seed=1, out=tmp_path / "weak").run()
    labels = [group.label for group in group_runs([*runs, read_run(tmp_path / "weak")])]
    assert labels == ["v4", "v7 align.lambda=5.0", "v7 align.lambda=1.0"]


def test_runs_on_different_data_or_draws_are_not_averaged(runs: list[Run], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.name differs \(digits in .*, svhn in v12-svhn-seed1\)"):
        group_runs([*runs, read_run(RECORDS / "v12-svhn-seed1")])
    other = {"alpha": 0.5}
    Experiment("v4", train={"rounds": 1}, partition=other, out=tmp_path / "other").run()
    with pytest.raises(UserError, match=r"partition\.alpha differs"):
        group_runs([*runs, read_run(tmp_path / "other")])


def test_the_command_writes_table_and_page(runs: list[Run], tmp_path: Path) -> None:
    folders = [str(run.folder) for run in runs]
    words = ["--baseline", "v4", "--page", "c.html", "--table", "c.csv"]
    done = command("compare", *folders, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The draw varies with the seed." in done.stdout
    with (tmp_path / "c.csv").open() as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["run", "v4", "v7"]
    found = re.search(r'json">(.*?)</script>', (tmp_path / "c.html").read_text(), re.S)
    assert found
    charts = json.loads(found.group(1))["charts"]
    assert [series["name"] for series in charts[0]["series"]] == ["v4", "v7"]
    done = command("compare", *folders, "--baseline", "v9", cwd=tmp_path)
    assert done.stderr == "error: --baseline v9: no run has this method (there are v4, v7)\n"


def test_a_run_that_stopped_or_is_not_there_is_refused(runs: list[Run], tmp_path: Path) -> None:
    stopped = replace(runs[0], summary=replace(runs[0].summary, status="stopped"))
    with pytest.raises(UserError, match="did not finish"):
        group_runs([stopped, *runs[1:]])
    done = command("compare", str(runs[0].folder), "typo", cwd=tmp_path)
    assert done.returncode == 2
    assert "typo: no such folder" in done.stderr
    done = command("compare", str(runs[0].folder), "--table", "x.txt", "--page", "p.html", cwd=tmp_path)
    assert "must end in .md or .csv" in done.stderr
    assert not (tmp_path / "p.html").exists()


def test_draws_of_their_own_count_as_repetitions(runs: list[Run]) -> None:
    other = replace(runs[0], settings={**runs[0].settings, "partition.seed": 7})
    groups = group_runs([runs[0], other])
    assert list(groups[0].final("feature-mean")) == ["1", "1/7"]


def test_own_images_from_two_places_are_not_averaged(runs: list[Run]) -> None:
    places = [
        replace(run, settings={**run.settings, "data.name": "folder", "data.root": place})
        for run, place in zip(runs, ("a", "b"), strict=False)
    ]
    with pytest.raises(UserError, match=r"data\.root differs"):
        group_runs(places)
