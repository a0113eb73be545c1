import pytest

from anchorfl.objective import SCHEDULES


def test_schedules_fall_from_one_as_seed_000_lists_them() -> None:
    linear = [SCHEDULES.get("linear")(round / 10) for round in range(10)]
    cosine = [SCHEDULES.get("cosine")(round / 10) for round in range(1, 10)]
    assert linear == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
    seed = [0.975, 0.904, 0.793, 0.654, 0.5, 0.345, 0.206, 0.095, 0.024]
    assert cosine == pytest.approx(seed, abs=1e-3)
    assert SCHEDULES.get("constant")(0.9) == 1
