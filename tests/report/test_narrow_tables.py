"""Tables on a console of 80 columns: methods with defaults of their own, many fusions, long names."""

import re
from dataclasses import replace
from io import StringIO
from itertools import takewhile
from pathlib import Path

import pytest
from rich.console import Console

from anchorfl import Experiment
from anchorfl.report.compare import show_comparison
from anchorfl.report.compare.groups import group_runs
from anchorfl.report.compare.table import note_on
from anchorfl.report.fusions import HEADINGS, fusion_rows, show_fusions
from anchorfl.report.tables import plain_table
from anchorfl.runs import Run
from anchorfl.simulate import fuse_again
from tests.report.recorded import recorded

METHODS = ("v4", "none", "fedavg", "v6")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """In the order of their folders' names, as a shell gives them."""
    out = tmp_path_factory.mktemp("runs")
    train = {"rounds": 1}
    made = (Experiment(name, train=train, out=out / name).run().run for name in sorted(METHODS))
    return list(made)


def shown(runs: list[Run], baseline: str | None = None, width: int = 80) -> list[str]:
    out = StringIO()
    show_comparison(Console(file=out, width=width), runs, baseline, None, None)
    return [line.strip() for line in out.getvalue().splitlines() if line.strip()]


def test_methods_of_other_defaults_are_called_by_their_names(runs: list[Run]) -> None:
    assert [group.label for group in group_runs(runs)] == list(METHODS)
    other = replace(runs[-1], settings={**runs[-1].settings, "partition.public": 0.2})
    groups = group_runs([*runs, other])
    assert [group.label for group in groups] == [
        *METHODS[:-1],
        "v6 partition.public=0.1",
        "v6 partition.public=0.2",
    ]
    assert "Methods also differ in train." in note_on(groups)


def test_what_trains_nothing_has_no_settings_of_training(runs: list[Run]) -> None:
    fedavg, none, v4, _ = runs
    longer = [replace(run, settings={**run.settings, "train.rounds": 5}) for run in (fedavg, v4)]
    assert [group.label for group in group_runs([none, *longer])] == ["v4", "none", "fedavg"]


def table_rows(lines: list[str]) -> list[list[list[str]]]:
    """The cells of every table: all lines from its rule to the next title or note."""
    after = [number + 1 for number, line in enumerate(lines) if line.startswith("──")]
    tables = [takewhile(lambda line: "  " in line, lines[start:]) for start in after]
    return [[re.split(r"\s{2,}", line) for line in table] for table in tables]


def test_every_row_is_one_line_with_a_number(runs: list[Run]) -> None:
    accuracies, differences = table_rows(shown(runs, "v4"))
    assert [row[1] for row in accuracies] == [*("v4", "v6") * 3, "none", "none", "fedavg"]
    assert all(float(row[2]) for row in accuracies)
    assert [(row[0], row[1], row[-1]) for row in differences] == [
        ("sketch-guided (primary)", "v6", "1"),
        ("class-mean", "v6", "1"),
        ("feature-mean", "v6", "1"),
    ]


def test_a_baseline_with_a_fusion_of_its_own_is_said_to_have_no_differences(runs: list[Run]) -> None:
    lines = shown(runs, "fedavg")
    assert "No difference: nothing else has a fusion and a seed of fedavg." in lines
    assert not any("minus" in line for line in lines)


def test_the_primary_fusion_is_marked(runs: list[Run]) -> None:
    text = "\n".join(shown(runs))
    marked = set(re.findall(r"(\S+) \(primary\)", text))
    assert marked == {"sketch-guided", "sketch-lda", "parameter-mean"}


@pytest.mark.parametrize("width", [50, 80, 120])
def test_no_word_of_a_comparison_is_broken(width: int, runs: list[Run]) -> None:
    words = " ".join(shown(runs, "v4", width)).split()
    fusions = {name for run in runs for name in run.summary.final_accuracy or {}}
    assert fusions < set(words)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_word_of_all_fusions_is_broken(width: int, runs: list[Run], tmp_path: Path) -> None:
    found, out = fuse_again(runs[2], {}, every=True), StringIO()
    show_fusions(Console(file=out, width=width), found, tmp_path / "f.tex")
    table, _, _ = out.getvalue().partition("owner: ")
    assert max(map(len, table.splitlines())) <= width
    rows = fusion_rows(found)
    wanted = {word for row in [HEADINGS, *rows] for cell in row for word in cell.split()}
    assert wanted <= set(table.split())
    text = (tmp_path / "f.tex").read_text()
    assert r"\label{tab:f}" in text
    assert text.count(r" \\") == len(rows) + 1


def test_a_title_is_as_wide_as_the_console() -> None:
    out, title = StringIO(), "a title of many words above a table of two columns"
    Console(file=out, width=80).print(plain_table(["a", "b"], [["1", "2"]], title))
    assert out.getvalue().splitlines()[0] == title


def test_groups_of_one_method_stand_in_the_order_of_their_numbers() -> None:
    (run,) = recorded("v4", seeds=(1,))
    runs = [replace(run, settings={**run.settings, "train.lr": lr}) for lr in (10, 0.5, 9, 1e-5)]
    labels = [f"v4 train.lr={lr}" for lr in ("1e-05", "0.5", "9", "10")]
    assert [group.label for group in group_runs(runs)] == labels
    assert [group.label for group in group_runs(runs[::-1])] == labels
