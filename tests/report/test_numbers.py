"""One way to write a number."""

import pytest

from anchorfl.report.numbers import counted, megabytes, percent, quantity


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.00123, "0.00123"),
        (5.0, "5"),
        (12.25, "12.2"),
        (1640.7, "1,641"),
        (2256819.2, "2,256,819"),
        (1.234e9, "1.23e+09"),
    ],
)
def test_a_quantity_has_three_digits_or_all_before_the_point(value: float | None, text: str) -> None:
    assert quantity(value) == text


def test_shares_and_sizes() -> None:
    assert (percent(0.8642), percent(None)) == ("86.4", "-")
    assert (megabytes(2_345_678), megabytes(1_234)) == ("2.3 MB", "1.2 kB")
    assert (counted(1, "round"), counted(1442, "sample")) == ("1 round", "1,442 samples")
