import json
from pathlib import Path

from anchorfl.events import ClientRound, RoundEnded, Warned, as_record
from anchorfl.loop import MetricsWriter


def client_round(loss: float) -> ClientRound:
    return ClientRound(0, 1, 20, 2, loss, None, 0.5, None, 0.1)


def evaluated(round: int) -> RoundEnded:
    return RoundEnded(round, {"feature-mean": 0.5}, None, [0.5, None], 20, 1, 1, 1, 3, 20)


def test_a_record_has_the_contracts_fields_and_null_for_what_is_not_a_number() -> None:
    record = as_record(client_round(float("nan")))
    wanted = {"event", "round", "client", "samples", "steps", "base_loss", "align_loss", "lambda_raw"}
    wanted |= {"lambda_effective", "lambda_stationary", "sigma_sq_local", "sigma_sq_align", "anneal"}
    assert wanted | {"clip_factor", "seconds"} <= record.keys()
    assert record["event"] == "client"
    assert record["base_loss"] is None
    assert as_record(Warned("empty-client", "text"))["kind"] == "empty-client"


def test_a_round_reaches_the_disk_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    writer(client_round(1.0))
    assert path.read_text() == ""
    writer(evaluated(0))
    assert [json.loads(line)["event"] for line in path.read_text().splitlines()] == ["client", "round"]
    writer(client_round(1.0))
    writer(Warned("non-finite", "text", client=1))
    writer.close()
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["client", "round", "warning"]
