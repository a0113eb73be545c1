"""A comparison as Markdown, LaTeX, CSV, figures and a page: the same numbers under the same names."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from PIL import Image

from anchorfl.report.compare.charts import charts_of, largest_lambdas
from anchorfl.report.compare.groups import Group, group_runs
from anchorfl.report.compare.page import write_page
from anchorfl.report.compare.table import accuracy_table, difference_table, note_on, tidy
from anchorfl.report.figures import write_charts
from anchorfl.report.latex import escaped
from anchorfl.report.table_files import write_tables
from anchorfl.runs import Run, RunFolder
from tests.conftest import command
from tests.report.recorded import recorded


@pytest.fixture
def groups() -> list[Group]:
    return group_runs(recorded("v12", "v4", "v12-gamma"))


def page_data(path: Path) -> dict[str, Any]:
    found = re.search(r'json">(.*?)</script>', path.read_text(), re.S)
    assert found
    content: dict[str, Any] = json.loads(found.group(1))
    return content


def markdown_rows(text: str) -> list[list[str]]:
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]


def latex_rows(text: str) -> list[list[str]]:
    plain = re.sub(r"\\mathbf\{(.*?)\}", r"\1", text).replace(r"\pm", "±").replace("$", "")
    lines = [line.strip() for line in plain.splitlines() if line.endswith(r"\\")]
    return [
        [cell.replace("--", "-") for cell in line.removesuffix(r" \\").split(" & ")] for line in lines
    ]


def test_markdown_latex_and_page_agree(groups: list[Group], tmp_path: Path) -> None:
    tables = [accuracy_table(groups), difference_table(groups, groups[0])]
    for name in ("c.md", "c.tex"):
        write_tables(tables, tmp_path / name, note_on(groups))
    write_page(groups, tables, tmp_path / "c.html")
    wanted = [row for table in tables for row in [table.headings, *table.rows]]
    found = [row for row in markdown_rows((tmp_path / "c.md").read_text()) if row[0] != "---"]
    assert [[cell.replace("**", "") for cell in row] for row in found] == wanted
    assert latex_rows((tmp_path / "c.tex").read_text()) == wanted
    shown = page_data(tmp_path / "c.html")["tables"]
    assert [row for table in shown for row in [table["headings"], *table["rows"]]] == wanted


def test_latex_is_whole_and_the_best_is_bold(groups: list[Group], tmp_path: Path) -> None:
    table = accuracy_table(groups)
    write_tables([table], tmp_path / "c.tex", note_on(groups))
    text = (tmp_path / "c.tex").read_text()
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    assert all(text.count(rule) == 1 for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0
    assert text.count(r"\mathbf{") == len(table.best) > 0
    assert (
        r"\caption{Accuracy, \%, on digits (dirichlet, alpha 0.05, 5 clients, 355 test images): mean"
        in text
    )
    assert r"\label{tab:c-accuracy}" in text
    assert "The draw varies with the seed." in text
    row, column = min(table.best)
    best = table.rows[row][column].split(" ± ")
    assert rf"$\mathbf{{{best[0]}}} \pm {best[1]}$" in text


def test_names_are_escaped_for_latex() -> None:
    assert escaped(r"a_b & 50% #1 {x} ~^ \$") == (
        r"a\_b \& 50\% \#1 \{x\} \textasciitilde{}\textasciicircum{} \textbackslash{}\$"
    )
    assert escaped("[x] ± 1") == r"{[}x] $\pm$ 1"


def test_csv_is_tidy_and_gives_the_means_again(tmp_path: Path) -> None:
    runs = recorded("v4", "v12", "v12-batch")
    groups = group_runs(runs)
    write_tables([], tmp_path / "c.csv", rows=tidy(groups))
    with (tmp_path / "c.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ["run", "method", "align.classes", "seed", "fusion", "accuracy", "largest lambda"]
    assert list(rows[0]) == columns
    assert len(rows) == sum(len(run.summary.final_accuracy or {}) for run in runs)
    own = [row for row in rows if row["align.classes"] == "batch" and row["fusion"] == "class-mean"]
    assert [row["seed"] for row in own] == ["1", "2", "3"]
    shares = [run.summary.accuracy("class-mean") or 0 for run in runs[6:]]
    assert mean(float(row["accuracy"]) for row in own) == pytest.approx(100 * mean(shares), abs=1e-5)
    assert [float(row["largest lambda"]) for row in own] == [run.largest_lambda for run in runs[6:]]
    assert {row["largest lambda"] for row in rows if row["method"] == "v4"} == {""}


def test_curves_have_their_spread_and_share_one_range(groups: list[Group]) -> None:
    *accuracy, lambdas, effective = charts_of(groups)
    assert [line.name for line in accuracy[0].series] == ["v4", "v12", "v12-gamma"]
    assert [chart.scale for chart in accuracy] == ["accuracy, %"] * 4
    line = accuracy[0].series[1]
    last = [100 * run.evaluations[-1]["accuracy"]["feature-mean"] for run in groups[1].runs]
    assert (line.low[-1], line.high[-1]) == (min(last), max(last))
    assert line.y[-1] == pytest.approx(mean(last))
    assert [line.name for line in lambdas.series] == ["v12", "v12-gamma"]
    assert lambdas.log
    assert lambdas.series[0].colour == line.colour
    assert max(lambdas.series[0].high) == groups[1].largest_lambda
    assert effective.name == "largest-effective-lambda"
    last = [max(own[-1]["lambda_effective"] for own in run.clients.values()) for run in groups[1].runs]
    assert effective.series[0].high[-1] == max(last) < lambdas.series[0].high[-1]


def test_the_largest_lambda_by_round_peaks_where_the_runs_does() -> None:
    (run,) = recorded("v12", seeds=(1,))
    assert max(largest_lambdas(run).values()) == run.largest_lambda
    effective = [
        {**record, "lambda_raw": None, "lambda_effective": 2.5} for record in run.metrics
        if record["event"] == "client"
    ]  # fmt: skip
    plain = replace(run, metrics=effective)
    assert set(largest_lambdas(plain).values()) == {2.5}
    assert [chart.name for chart in charts_of([Group("v12", {}, [plain])])] == ["largest-lambda"]


def test_a_curve_stands_where_all_its_runs_were_evaluated(groups: list[Group]) -> None:
    first, *others = groups[0].runs
    fewer = [each for each in first.metrics if each["event"] != "round" or each["round"] != 4]
    lines = charts_of([Group("v4", {}, [replace(first, metrics=fewer), *others])])[0].series
    assert lines[0].x == [each for each in charts_of(groups)[0].series[0].x if each != 4]


def test_every_figure_comes_in_three_formats(groups: list[Group], tmp_path: Path) -> None:
    charts = charts_of(groups)
    paths = write_charts(charts[-2:-1], "digits", tmp_path)
    assert {path.name for path in paths} == {
        f"largest-lambda{each}" for each in (".png", ".pdf", ".svg")
    }
    assert Image.open(tmp_path / "largest-lambda.png").width > 600
    assert (tmp_path / "largest-lambda.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "largest-lambda.svg").read_text()


def test_figures_of_one_quantity_have_one_range(groups: list[Group], tmp_path: Path) -> None:
    write_charts(charts_of(groups)[:4], "digits", tmp_path)
    texts = [path.read_text() for path in sorted(tmp_path.glob("*.svg"))]
    marks = [re.findall(r"<!-- (\d+) -->", text) for text in texts]
    assert len(marks) == 4
    assert marks == [marks[0]] * 4


def test_a_fusion_named_by_somebody_else_leads_nowhere(groups: list[Group]) -> None:
    def renamed(run: Run) -> Run:
        name = "../../x"
        points = [{**run.evaluations[-1], "accuracy": {name: 0.5}}]
        return replace(run, metrics=points, summary=replace(run.summary, final_accuracy={name: 0.5}))

    (chart,) = charts_of(group_runs([renamed(run) for run in groups[0].runs]))
    assert chart.name == "accuracy-..-..-x"


def test_the_page_links_to_every_run(groups: list[Group], tmp_path: Path) -> None:
    (tmp_path / "runs" / "a b").mkdir(parents=True)
    with_page = replace(groups[0].runs[0], folder=tmp_path / "runs" / "a b")
    RunFolder(with_page.folder).page.write_text("")
    write_page(group_runs([with_page, *groups[1].runs[:1]]), [], tmp_path / "pages" / "c.html")
    data = page_data(tmp_path / "pages" / "c.html")
    rows = data["more_tables"][0]["rows"]
    assert rows[0][0] == {"text": "a b", "link": "../runs/a%20b/report.html"}
    assert rows[1][0]["link"].endswith("benchmarks/records/digits/v12-seed1")
    assert [chart["scale"] for chart in data["charts"][:-2]] == ["accuracy, %"] * 4
    assert all(len(each["low"]) == len(each["x"]) for each in data["charts"][0]["series"])


def test_the_command_writes_all_that_was_asked_for(groups: list[Group], tmp_path: Path) -> None:
    folders = [str(run.folder) for group in groups[:2] for run in group.runs]
    words = ["--baseline", "v4", "--page", "c.html", "--table", "new/c.md", "--figures", "figures"]
    done = command("compare", *folders, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "The draw varies with the seed." in done.stdout
    assert len(list((tmp_path / "figures").iterdir())) == 18
    assert markdown_rows((tmp_path / "new" / "c.md").read_text())[2][0] == "v4"
    done = command("compare", folders[0], "--table", "x.txt", "--page", "p.html", cwd=tmp_path)
    assert "must end in .md, .csv or .tex" in done.stderr
    assert not (tmp_path / "p.html").exists()
