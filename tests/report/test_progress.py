import io

from rich.console import Console

from anchorfl.engine import Warned, run_in_folder
from anchorfl.report.progress import LiveProgress, PlainProgress, show_progress
from anchorfl.settings import resolve


def shown(terminal: bool, out: str) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    listener = show_progress(console)
    assert isinstance(listener, LiveProgress if terminal else PlainProgress)
    run_in_folder(resolve("v4", {"train.rounds": 2, "out": out}), (listener,))
    listener(Warned("test", "[client 3] holds nothing"))
    return text.getvalue()


def test_a_terminal_shows_round_client_pace_time_and_accuracy(tmp_path: object) -> None:
    text = shown(True, f"{tmp_path}/run")
    for words in (
        "round 2/2",
        "client",
        "samples/s",
        "0:00:",
        "sketch-guided",
        "[client 3] holds nothing",
    ):
        assert words in text


def test_a_log_gets_one_plain_line_a_round(tmp_path: object) -> None:
    lines = shown(False, f"{tmp_path}/run").splitlines()
    assert "\x1b" not in "".join(lines)
    ends = [line for line in lines if "samples/s" in line]
    assert [line.split("  ")[0] for line in ends] == ["round 0 (1/2)", "round 1 (2/2)"]
    assert lines[-1] == "warning: [client 3] holds nothing"
