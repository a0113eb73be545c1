import io
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console

from anchorfl.report.figures import plot_partition
from anchorfl.report.tables import partition_table


def shown(counts: np.ndarray, names: list[str], width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(partition_table(counts, names, "title", width))
    return text.getvalue().splitlines()


def test_the_table_gives_size_entropy_normalised_entropy_and_effective_classes() -> None:
    counts = np.array([[8, 4, 4, 0], [0, 0, 0, 0], [0, 7, 0, 0]])
    rows = [line.split() for line in shown(counts, list("abcd"), 120) if line.strip()][3:]
    assert rows[0] == ["0", "16", "1.500", "0.750", "2.83", "8", "4", "4", "."]
    assert rows[1] == ["1", "0", "0.000", "0.000", "0.00", ".", ".", ".", "."]
    assert rows[2] == ["2", "7", "0.000", "0.000", "1.00", ".", "7", ".", "."]


def test_many_classes_in_a_narrow_terminal_lose_no_figure() -> None:
    counts = np.arange(200).reshape(2, 100)
    lines = shown(counts, [f"class {k}" for k in range(100)], 80)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "14,950" in text
    assert "class 99: 199" in text


def test_names_with_signs_of_their_own_are_shown_as_they_are(tmp_path: Path) -> None:
    names, counts = ["$_$", "[bold]", "\u732b"], np.ones((2, 3), np.int64)
    text = "\n".join(shown(counts, names, 120))
    assert all(name in text for name in names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plot_partition(counts, names, "a $b_$", tmp_path / "p.PNG").is_file()
