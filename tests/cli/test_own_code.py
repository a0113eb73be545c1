"""A method, a balance or a fusion of one's own from FILE.py:NAME, in every command that takes a run."""

from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import yaml
from PIL import Image

from anchorfl import Experiment, load_run
from anchorfl.errors import UserError
from anchorfl.events import Event, RoundEnded
from anchorfl.loop import MetricsWriter
from anchorfl.objective import BALANCES
from tests.conftest import command, own_code_forgotten

BALANCE = '''
from dataclasses import dataclass
from pathlib import Path

from anchorfl.methods import Method
from anchorfl.objective import BALANCES, Balance
from anchorfl.options import option

Path(__file__).with_name("imported").touch()


@BALANCES.register("plain-sum")
@dataclass(frozen=True)
class Sum(Balance):
    """The weights see B + strength A."""

    strength: float = option(1.0, "weight of the align loss", at_least=0)

    def loss(self, losses, state, anneal):
        return losses.base + self.strength * losses.align, {}

    def readings(self, losses, state, anneal):
        return {"lambda_effective": anneal.new_full((), self.strength)}


TWICE = Method("the sum, twice as strong", "plain-sum", defaults={"align.strength": 2.0})
'''
FUSION = '''
from dataclasses import dataclass

from anchorfl.options import option
from anchorfl.fusion.class_mean import ClassMean


@dataclass(frozen=True)
class Counted(ClassMean):
    """class-mean under another name."""

    share: float = option(0.5, "an option of its own", at_least=0)
'''
LOSS_LINE = BALANCE[: BALANCE.index("return losses")].count("\n") + 1
FUSIONS = "fusion=sketch-guided,mine.py:Counted"


def anew(*words: str, cwd: Path) -> CompletedProcess[str]:
    """The command as it is where nobody has imported anything yet."""
    with own_code_forgotten():
        return command(*words, cwd=cwd)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the code, and a run by it."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.py").write_text(BALANCE)
    (folder / "mine.py").write_text(FUSION)
    words = ["align.strength=3", "train.rounds=1", FUSIONS, "fusion.mine.py:Counted.share=0.25"]
    done = anew("run", "own.py:Sum", *words, "out=run", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_balance_runs_as_a_method_and_its_lambda_is_shown(home: Path) -> None:
    run = load_run(home / "run").run
    assert run.largest_lambda == 3.0
    assert run.settings["fusion.mine.py:Counted.share"] == 0.25
    assert "mine.py:Counted" in (run.summary.final_accuracy or {})


def test_a_name_that_is_taken_is_not_registered_again(home: Path) -> None:
    (home / "taken.py").write_text(BALANCE.replace('"plain-sum"', '"entropy"'))
    done = anew("run", "taken.py:Sum", "train.rounds=1", "out=taken", cwd=home)
    assert done.returncode == 2
    assert "registers balance 'entropy', a name that is taken" in done.stderr
    assert BALANCES.get("entropy").__module__ == "anchorfl.objective.balance.entropy"


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("lambda_effective", "lambda_efective", "did you mean lambda_effective?"),
        ("strength * losses.align", "strength", "no gradient leads from its loss"),
        (", {}", ', {"other": anneal}', "loss returns 'other', and init names nothing"),
        (", {}", ', {"kept": anneal[None]}', "loss returns 'kept' of another shape than init"),
    ],
)
def test_what_a_balance_would_lose_in_silence_is_said(
    home: Path, right: str, wrong: str, said: str
) -> None:
    assert right in BALANCE
    code = BALANCE.replace("losses.base +", "losses.base.detach() +") if "gradient" in said else BALANCE
    kept = "\n    def init(self, facts):\n        return {'kept': facts.class_counts.sum() * 1.0}\n"
    code = code.replace("\n    def loss", kept + "\n    def loss") if "shape" in said else code
    (home / "silent.py").write_text(code.replace(right, wrong))
    done = anew("run", "silent.py:Sum", "train.rounds=1", "out=silent", cwd=home)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("words", [["fuse", "run"], ["distill", "run", "--steps", "1"]])
def test_a_folder_that_names_code_imports_it_only_when_trusted(home: Path, words: list[str]) -> None:
    (home / "imported").unlink(missing_ok=True)
    done = anew(*words, cwd=home)
    assert done.returncode == 2
    assert "own.py:Sum' is code" in done.stderr
    assert "--trust" in done.stderr
    assert not (home / "imported").exists()
    done = anew(*words, "--trust", cwd=home)
    assert done.returncode == 0, done.stderr
    assert (home / "imported").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "run"],
        ["report", "run"],
        ["diagnose", "run"],
        ["export", "run", "model.safetensors"],
        ["predict", "run", "two.png"],
        ["evaluate", "run", "--data", "digits"],
    ],
)
def test_what_needs_no_code_imports_none(home: Path, words: list[str]) -> None:
    """A model is a file of its own: who fused it, and by what, no longer matters."""
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(home / "two.png")
    (home / "imported").unlink(missing_ok=True)
    done = anew(*words, cwd=home)
    assert done.returncode == 0, done.stderr
    assert not (home / "imported").exists()


def test_methods_forecast_and_sweep_take_it(home: Path) -> None:
    shown = anew("methods", "own.py:TWICE", cwd=home)
    assert "twice as strong" in shown.stdout
    assert "align.strength=2.0" in shown.stdout
    plan = {"settings": {"train.rounds": 1, "method": "own.py:TWICE"}, "grid": {"seed": [1]}}
    (home / "sweep.yaml").write_text(yaml.safe_dump({**plan, "out": "swept"}))
    done = anew("sweep", "sweep.yaml", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "own.py:TWICE" in done.stdout


def test_a_run_by_code_that_has_changed_is_not_taken_for_the_same(home: Path) -> None:
    changed = home / "changed.py"
    changed.write_text(BALANCE)
    plan = {"settings": {"train.rounds": 1, "method": "changed.py:Sum"}, "out": "of-changed"}
    (home / "changed.yaml").write_text(yaml.safe_dump(plan))
    assert anew("sweep", "changed.yaml", cwd=home).returncode == 0
    assert "earlier" in anew("sweep", "changed.yaml", cwd=home).stdout
    changed.write_text(BALANCE.replace("losses.base +", "losses.base + 0 +"))
    words = ("run", "changed.py:Sum", "train.rounds=1", "out=of-changed/run")
    done = anew(*words, cwd=home)
    assert done.returncode == 2
    assert "before a change; add --restart" in done.stderr
    done = anew("sweep", "changed.yaml", cwd=home)
    assert "changed.py has changed: run goes to of-changed/.earlier, and anew" in done.stdout
    assert "earlier\n" not in done.stdout
    both = ["of-changed/run", "of-changed/.earlier/run"]
    assert anew("compare", *both, cwd=home).stdout.count("changed.py:Sum code=") >= 2
    changed.write_text(BALANCE)
    assert anew(*words, "--restart", cwd=home).returncode == 0


def test_a_runs_settings_are_not_repeated_by_code_that_has_changed(home: Path) -> None:
    code = home / "later.py"
    code.write_text(BALANCE)
    assert anew("run", "later.py:Sum", "train.rounds=1", "out=first", cwd=home).returncode == 0
    again = ("run", "first/config.yaml", "out=second")
    code.write_text(BALANCE.replace("losses.base +", "losses.base + 0 +"))
    done = anew(*again, cwd=home)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "first/config.yaml: later.py is not what it was when this ran" in done.stderr
    assert not (home / "second").exists()
    code.write_text(BALANCE)
    done = anew(*again, cwd=home)
    assert done.returncode == 0, done.stderr
    assert load_run(home / "first").accuracy == load_run(home / "second").accuracy


def test_a_stopped_run_by_own_code_goes_on_when_trusted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = MetricsWriter.__call__

    def cut(self: MetricsWriter, event: Event) -> None:
        whole(self, event)
        if isinstance(event, RoundEnded):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MetricsWriter, "__call__", cut)
        done = anew("run", "own.py:Sum", "train.rounds=2", "out=cut", cwd=home)
    assert "stopped: anchorfl run cut --trust resumes" in done.stderr
    assert "--trust" in anew("run", "cut", cwd=home).stderr
    done = anew("run", "cut", "--trust", cwd=home)
    assert done.returncode == 0, done.stderr


def test_a_trusted_run_is_judged_by_its_own_balance(home: Path) -> None:
    assert "judged only with --trust" in anew("diagnose", "run", cwd=home).stdout
    done = anew("diagnose", "run", "--trust", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "judged" not in done.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.py:Sum", "no such file"),
        ("own.py:Nothing", "AttributeError"),
        ("own.py:Path", "neither a Method nor a Balance"),
    ],
)
def test_mistakes_end_in_one_line(home: Path, name: str, said: str) -> None:
    with own_code_forgotten(), pytest.raises(UserError, match=said):
        Experiment(f"{home}/{name}")


def test_a_task_for_real_sites_names_no_file(home: Path) -> None:
    (home / "preset.yaml").write_text("method: own.py:Sum\ndata: {name: sites, size: 8}\n")
    (home / "classes.txt").write_text("a\nb\n")
    done = anew("task", "new", "preset.yaml", "classes.txt", "-o", "task.safetensors", cwd=home)
    assert done.returncode == 2
    assert "install it there as a package" in done.stderr


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("return losses.base", "loss must return a tensor of one number, and a dict"),
        ("return losses.nothing, {}", f"loss, line {LOSS_LINE}: AttributeError"),
    ],
)
def test_a_balance_that_cannot_work_is_named_before_training(
    home: Path, written: str, said: str
) -> None:
    right = "return losses.base + self.strength * losses.align, {}"
    (home / "wrong.py").write_text(BALANCE.replace(right, written))
    done = anew("run", "wrong.py:Sum", "train.rounds=1", "out=wrong", cwd=home)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (home / "wrong").exists()


def test_readings_that_are_no_tensors_are_named(home: Path) -> None:
    right = "anneal.new_full((), self.strength)"
    (home / "wrong.py").write_text(BALANCE.replace(right, "self.strength"))
    done = anew("run", "wrong.py:Sum", "train.rounds=1", cwd=home)
    assert "readings must return a dict of tensors of one number each" in done.stderr
