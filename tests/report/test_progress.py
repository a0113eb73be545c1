import io

from rich.console import Console

from anchorfl.events import Preparing, RoundEnded, RunStarted, Warned
from anchorfl.report.progress import LiveProgress, PlainProgress, opening, show_progress
from anchorfl.settings import resolve
from anchorfl.simulate import run_in_folder


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


def test_a_round_that_trains_nothing_tells_no_pace_and_no_time(tmp_path: object) -> None:
    text = io.StringIO()
    listener = PlainProgress(Console(file=text, width=120))
    listener(RunStarted("none", "digits", 1, 1, "", 0, [900], "cpu", 1, f"{tmp_path}"))
    listener.spoke = -1e9
    listener(Preparing("drawing pictures", 1, 4))
    listener(RoundEnded(0, {"sketch-lda": 0.951}, None, [None], 900, 0.0, 0.1, 0.1, 0.2, 0.0))
    assert text.getvalue().startswith("none on digits: 1 client, 900 samples, 1 round of 1 epoch")
    assert text.getvalue().splitlines()[1:] == [
        "drawing pictures 25.0 %", "round 0 (1/1)  sketch-lda 95.1 %"
    ]  # fmt: skip


def test_the_opening_counts_all_clients_and_those_that_hold_something() -> None:
    def line(samples: list[int]) -> str:
        return opening(RunStarted("v4", "digits", 1, 1, "net", 32, samples, "cuda", 1, "runs/x"))

    before = "v4 on digits: net in batches of 32"
    assert line([5, 0, 7]).startswith(f"{before}, 3 clients (2 with samples), 12 samples, 1 round")
    assert line([5, 7]).startswith(f"{before}, 2 clients, 12 samples, 1 round of 1 epoch on cuda")
