"""What is compared with what: groups, their order, and what is refused."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from anchorfl.errors import UserError
from anchorfl.report.compare.groups import baseline_of, draws, group_runs
from anchorfl.report.compare.table import note_on
from anchorfl.runs import Run, read_run
from tests.conftest import RECORDS, command
from tests.report.recorded import recorded


def changed(run: Run, **settings: object) -> Run:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return replace(run, settings={**run.settings, **named})


def labels(runs: list[Run]) -> list[str]:
    return [group.label for group in group_runs(runs)]


def test_runs_that_differ_in_the_seed_alone_are_one_group() -> None:
    runs = recorded("v4")
    (group,) = group_runs(runs)
    assert group.seeds == ["1", "2", "3"]
    assert group.accuracy("class-mean") == {
        str(seed): run.summary.accuracy("class-mean") for seed, run in enumerate(runs, 1)
    }


def test_methods_stand_in_their_own_order_and_unknown_ones_last() -> None:
    runs = recorded("v12-gamma", "v12", "v4", seeds=(1,))
    elsewhere = changed(recorded("v4", seeds=(2,))[0], method="not-installed-here")
    assert labels([elsewhere, *runs]) == ["v4", "v12", "v12-gamma", "not-installed-here"]


def test_a_setting_that_differs_within_a_method_makes_a_group_of_its_own() -> None:
    assert labels(recorded("v12", "v12-batch", "v4")) == [
        "v4",
        "v12 align.classes=all",
        "v12 align.classes=batch",
    ]


def test_runs_are_called_by_their_label_where_it_tells_them_apart() -> None:
    ours = [changed(run, label="ours") for run in recorded("v12")]
    assert labels([*ours, *recorded("v4")]) == ["v4", "ours"]
    others = [changed(run, label="ours") for run in recorded("v4")]
    assert labels([*ours, *others]) == ["v4", "v12"]


def test_runs_by_different_code_are_not_averaged() -> None:
    first, second, third = recorded("v12")
    runs = [replace(first, code={"own.py": "a"}), replace(second, code={"own.py": "b"}), third]
    assert len(set(labels(runs))) == 3
    assert all(re.fullmatch("v12 code=[0-9a-f]{6}", label) for label in labels(runs))


def test_what_sets_methods_apart_is_in_their_names_and_in_a_note() -> None:
    fixed = replace(
        recorded("v4", seeds=(1,))[0],
        settings={
            **recorded("v4", seeds=(1,))[0].settings,
            "method": "v7",
            "align.lambda": 5.0,
            "align.schedule": "constant",
        },
    )
    learned = recorded("v12", seeds=(1,))[0]
    assert learned.settings["align.schedule"] == "linear"
    assert labels([fixed, learned]) == ["v7", "v12"]
    assert "differ" not in note_on(group_runs([fixed, learned]))
    longer = changed(learned, train__rounds=99, train__lr=0.5)
    assert labels([fixed, longer]) == ["v7", "v12"]
    note = "One seed. Methods also differ in train.lr, train.rounds."
    assert note_on(group_runs([fixed, longer])) == note
    assert labels([fixed, learned, changed(longer, seed=2)]) == [
        "v7",
        "v12 train.lr=0.05 train.rounds=30",
        "v12 train.lr=0.5 train.rounds=99",
    ]


def test_a_baseline_is_a_method_or_one_of_its_groups() -> None:
    groups = group_runs(recorded("v12", "v12-batch", "v4"))
    assert baseline_of(groups, "v4") is groups[0]
    assert baseline_of(groups, "v12 align.classes=batch") is groups[2]
    both = re.escape("v12 align.classes=all, v12 align.classes=batch")
    with pytest.raises(UserError, match=f"several groups have this method; name one of {both}"):
        baseline_of(groups, "v12")
    with pytest.raises(UserError, match="--baseline v9: no run has this method; name one of v4, v12 "):
        baseline_of(groups, "v9")


def test_runs_on_different_data_or_draws_are_not_averaged() -> None:
    runs = recorded("v4")
    with pytest.raises(UserError, match=r"data\.name differs \(digits in .*, svhn in v12-svhn-seed1\)"):
        group_runs([*runs, read_run(RECORDS / "v12-svhn-seed1")])
    with pytest.raises(UserError, match=r"partition\.alpha differs"):
        group_runs([runs[0], changed(runs[1], partition__alpha=0.5)])
    own = [changed(run, data__name="folder", data__root=f"place-{run.folder.name}") for run in runs]
    with pytest.raises(UserError, match=r"data\.root differs"):
        group_runs(own)


def test_the_same_experiment_twice_is_refused() -> None:
    (run,) = recorded("v4", seeds=(1,))
    with pytest.raises(UserError, match=r"v4-seed1 and .*copy are the same experiment.*leave one"):
        group_runs([run, replace(run, folder=Path("copy"))])


def test_draws_of_their_own_count_as_repetitions() -> None:
    (run,) = recorded("v4", seeds=(1,))
    (group,) = group_runs([run, changed(run, partition__seed=7)])
    assert group.seeds == ["1", "1/7"]


def test_it_is_said_whether_the_draw_varies() -> None:
    runs = recorded("v4", "v12")
    assert draws(runs) == "The draw varies with the seed."
    assert draws(recorded("v4", "v12", seeds=(2,))) == "One seed."
    same = [replace(run, summary=replace(run.summary, partition_hash="a")) for run in runs]
    assert draws(same) == "Every seed has the same draw."
    assert draws([same[0], *runs[1:]]).startswith("Runs of one seed have different draws")


def test_a_run_that_stopped_or_is_not_there_is_refused(tmp_path: Path) -> None:
    first, *others = recorded("v4")
    with pytest.raises(UserError, match="did not finish"):
        group_runs([replace(first, summary=replace(first.summary, status="stopped")), *others])
    done = command("compare", str(first.folder), "typo", cwd=tmp_path)
    assert done.returncode == 2
    assert "typo: no such folder" in done.stderr


def test_of_several_folders_what_is_no_finished_run_is_left_out_with_a_line(tmp_path: Path) -> None:
    for run in recorded("v4", seeds=(1, 2)):
        shutil.copytree(run.folder, tmp_path / "runs" / run.folder.name)
    going = tmp_path / "runs" / "v4-going"
    shutil.copytree(tmp_path / "runs" / "v4-seed1", going)
    for summary in going.glob("summary.json*"):
        summary.unlink()
    (tmp_path / "runs" / "stray.txt").write_text("")
    (tmp_path / "runs" / "figures").mkdir()
    names = sorted(f"runs/{path.name}" for path in (tmp_path / "runs").iterdir())
    done = command("compare", *names, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "left out: runs/figures: is not a run's folder (no config.yaml)",
        "left out: runs/stray.txt: is no run",
        "left out: runs/v4-going: is not finished",
    ]
    assert "over seeds 1, 2" in done.stdout
    refused = command("compare", "runs/v4-going", cwd=tmp_path)
    assert refused.returncode == 2
    assert "runs/v4-going: did not finish" in refused.stderr
    refused = command("compare", "runs/v4-going", "runs/stray.txt", cwd=tmp_path)
    assert "name at least one finished run's folder" in refused.stderr


def test_runs_of_a_method_that_is_not_installed_compare_all_the_same(tmp_path: Path) -> None:
    (known, other) = recorded("v4", "v12", seeds=(1,))
    shutil.copytree(other.folder, tmp_path / "elsewhere")
    config = tmp_path / "elsewhere" / "config.yaml"
    config.write_text(config.read_text().replace("method: v12", "method: not-installed-here"))
    words = ["--baseline", "not-installed-here", "--page", "c.html", "--table", "c.tex"]
    done = command("compare", "elsewhere", str(known.folder), *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = [line.split(" & ")[0].strip() for line in (tmp_path / "c.tex").read_text().splitlines()]
    assert written.index("v4") < written.index("not-installed-here")
