"""Each rule on a recorded run where it applies, and on one where it must keep silent."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anchorfl import Experiment
from anchorfl.diagnose import diagnose
from anchorfl.diagnose.verdict import listed
from anchorfl.diagnose.verdicts import RULES
from anchorfl.runs import Run, Summary, read_run
from tests.conftest import RECORDS, command

READING = "normalised-feature-mean"


def record(name: str) -> Run:
    return read_run(RECORDS / name)


def changed(run: Run, **values: Any) -> Run:
    """The run with some values in every client record replaced."""
    metrics = [{**r, **values} if r["event"] == "client" else r for r in run.metrics]
    return replace(run, metrics=metrics)


def test_an_explosion_is_described_with_who_when_and_why() -> None:
    verdict = RULES["runaway"](record("v12-svhn-seed1"))
    assert verdict is not None
    assert "ran away on clients 1, 2, 3, from round 10 on" in verdict.text
    assert (
        "client 2, in round 10, A had fallen 6.15-fold, from 1 to 0.163, and s 1.25-fold"
        in verdict.text
    )
    assert "from 1 to 0.8; its stationary lambda was 52.3" in verdict.text
    assert "The raw one reached 66,695,744 in round 49" in verdict.text
    assert "v12-gamma with align.gamma=0.05 or more" in verdict.advice
    assert RULES["runaway"](record("v12-gamma-svhn-seed1")) is None


def test_a_failed_readout_is_separated_from_failed_encoders() -> None:
    run = record("v12-svhn-seed1")
    verdict = RULES["readout"](run)
    assert verdict is not None
    assert "feature-mean fell 22.1 points from round 9 to the end" in verdict.text
    assert RULES["encoders"](run) is None
    falling = []
    for entry in run.metrics:
        if entry["event"] == "round" and entry["accuracy"]:
            worse = {name: value - 0.004 * entry["round"] for name, value in entry["accuracy"].items()}
            entry = {**entry, "accuracy": worse}
        falling.append(entry)
    assert RULES["readout"](replace(run, metrics=falling)) is None
    both = RULES["encoders"](replace(run, metrics=falling))
    assert both is not None
    assert "The encoders got worse too" in both.text


def test_without_a_second_reading_nothing_is_said_of_the_readout() -> None:
    run = record("v12-svhn-seed1")
    alone = [
        {**r, "accuracy": {READING: r["accuracy"][READING]}}
        if r["event"] == "round" and r["accuracy"]
        else r
        for r in run.metrics
    ]
    assert RULES["readout"](replace(run, metrics=alone)) is None
    assert RULES["encoders"](replace(run, metrics=alone)) is None


def test_frozen_encoders_are_named_where_clipping_takes_their_step() -> None:
    run = record("v12-svhn-seed2")
    verdict = RULES["frozen"](run)
    assert verdict is not None
    assert "encoders of clients 0, 1, 3, 4 hardly move" in verdict.text
    assert RULES["frozen"](changed(run, clip_factor=1.0)) is None
    assert RULES["frozen"](record("v12-gamma-svhn-seed2")) is None
    grouped = replace(run, settings={**run.settings, "train.clip": "group"})
    assert RULES["frozen"](grouped) is None


def test_annealing_that_cancels_itself_is_described_with_the_product() -> None:
    verdict = RULES["cancelled"](record("v12-svhn-seed2"))
    assert verdict is not None
    assert "cancelled on client 2: while s fell from 0.5 to 0.02" in verdict.text
    assert RULES["cancelled"](record("v12-gamma-svhn-seed2")) is None


def test_a_slow_sigma_is_noted_and_no_problem() -> None:
    verdict = RULES["slow-sigma"](record("v12-gamma-svhn-seed1"))
    assert verdict is not None
    assert not verdict.problem
    assert "client 4, with 2 steps per round, ends at lambda 22.9 where 58.9" in verdict.text
    assert RULES["slow-sigma"](record("v12-gamma-svhn-seed2")) is None


def test_a_divided_gradient_is_no_over_alignment() -> None:
    values = {"base_weight": 1 / 18, "lambda_effective": 0.5, "clip_factor": 0.3}
    source = record("v12-gamma-svhn-seed2")
    kept = {key: value for key, value in source.settings.items() if not key.startswith("align.")}
    run = changed(replace(source, settings={**kept, "method": "v10"}), **values)
    verdict = RULES["divided"](run)
    assert verdict is not None
    assert "divided by 2 sl2 = 18 and A has the weight 0.5, 10.0 % of V7's" in verdict.text
    assert "under-trained and not over-aligned" in verdict.text
    assert "mean factor 0.3" in verdict.text
    assert not verdict.problem
    assert RULES["divided"](changed(run, lambda_effective=9.0)) is None
    assert RULES["divided"](changed(run, base_weight=1.0)) is None
    assert RULES["divided"](changed(source, **values)) is None


def test_a_fusion_below_the_best_client_is_named() -> None:
    verdict = RULES["no-gain"](record("v12-svhn-seed1"))
    assert verdict is not None
    assert "feature-mean ends at 45.0 %, below the best single client's 52.9 %" in verdict.text
    assert RULES["no-gain"](record("v12-gamma-svhn-seed1")) is None


def ending(accuracy: dict[str, float], images: int) -> Run:
    """A run whose last evaluation had these accuracies on so many test images."""
    run = record("v12-svhn-seed1")
    last = max(entry["round"] for entry in run.metrics if entry["event"] == "round")
    metrics = [
        {**entry, "accuracy": accuracy}
        if entry["event"] == "round" and entry["round"] == last
        else entry
        for entry in run.metrics
    ]
    confusion = {name: [[images, 0], [0, 0]] for name in accuracy}
    return replace(run, metrics=metrics, summary=replace(run.summary, confusion=confusion))


def test_a_rule_is_recommended_only_where_it_beats_the_primary_one_by_more_than_chance() -> None:
    better = RULES["better-fusion"](ending({"feature-mean": 0.45, "class-mean": 0.778}, 10_000))
    assert better is not None
    assert "class-mean ends at 77.8 %, feature-mean at 45.0 % on 10,000 test images" in better.text
    assert better.advice == "Use fusion=class-mean."
    for accuracy, images in [
        ({"sketch-guided": 0.986, "class-mean": 0.847}, 10_000),
        ({"feature-mean": 0.847, "class-mean": 0.903}, 72),
        ({"feature-mean": 0.45, "zscore-batch": 0.9}, 10_000),
    ]:
        run = ending(accuracy, images)
        assert RULES["better-fusion"](run) is None
        assert "Use fusion" not in " ".join(verdict.text for verdict in diagnose(run))


def test_a_difference_of_few_images_is_no_failure() -> None:
    few, many = (ending({READING: 0.61, "class-mean": 0.778}, n) for n in (72, 26_032))
    assert RULES["readout"](many) is not None
    assert RULES["readout"](few) is None
    assert RULES["no-gain"](ending({READING: 0.50}, 72)) is None
    assert RULES["no-gain"](ending({READING: 0.50}, 26_032)) is not None


def test_one_illness_gets_one_cure() -> None:
    texts = " ".join(verdict.text for verdict in diagnose(record("v12-svhn-seed2")))
    assert "Annealing was cancelled" in texts
    assert texts.count("v12-gamma") == 1
    assert "Raise align.sigma_lr" not in texts
    assert texts.count("fusion=") == 1


def test_a_finite_loss_far_above_guessing_is_a_divergence(tmp_path: Path) -> None:
    train = {"rounds": 2, "lr": 1e4}
    result = Experiment("v12", train=train, seed=1, out=tmp_path / "run").run()
    texts = [verdict.text for verdict in diagnose(result.run)]
    assert not result.run.warnings
    assert "Training diverged on clients 0, 1, 2, 3, 4: B ends at up to" in " ".join(texts)
    assert "Lower train.lr, which is 10000." in " ".join(texts)
    assert "v12-gamma" not in " ".join(texts)
    assert not any("No problem" in text for text in texts)
    assert RULES["diverged"](record("v7-cifar10-seed1")) is None


def test_a_capped_lambda_is_said_to_have_been_held() -> None:
    run = record("v12-svhn-seed1")
    capped = replace(run, settings={**run.settings, "align.guard": "cap"})
    verdict = RULES["runaway"](capped)
    assert verdict is not None
    assert "would have run away, and was held at ten times B/A of round 0, on clients" in verdict.text


FIELDS = (
    "base_loss align_loss anneal lambda_raw lambda_effective lambda_stationary clip_factor steps"
    " prototype_norm_seen prototype_norm_unseen base_weight gradient_share_encoder sigma_sq_align"
)


@pytest.mark.parametrize("name", FIELDS.split())
@pytest.mark.parametrize("source", ["v12-svhn-seed1", "v12-gamma-svhn-seed2"])
def test_a_number_that_is_missing_silences_rules_and_breaks_none(source: str, name: str) -> None:
    diagnose(changed(record(source), **{name: None}))


def test_many_clients_are_counted_and_not_listed() -> None:
    assert listed(range(84)) == "84 clients (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...)"


def test_a_client_with_one_class_is_named() -> None:
    run = record("v12-svhn-seed1")
    table = [row if k else [7] + [0] * 9 for k, row in enumerate(run.summary.label_table or [])]
    single = replace(run, summary=replace(run.summary, label_table=table))
    verdict = RULES["single-class"](single)
    assert verdict is not None
    assert verdict.text == "Client 0 holds one class."
    assert RULES["single-class"](run) is None


@pytest.mark.parametrize(("primary", "problem"), [("class-mean", True), ("feature-mean", False)])
def test_a_rule_that_favours_a_class_is_a_problem_where_it_makes_the_predictor(
    primary: str, problem: bool
) -> None:
    run = record("v12-svhn-seed1")
    confusion = {primary: [[75, 0], [0, 25]], "class-mean": [[0, 75], [0, 25]]}
    summary = replace(
        run.summary, label_table=[[0, 9], [4, 5]], class_names=["cat", "dog"], confusion=confusion
    )
    metrics = [{"event": "round", "round": 0, "accuracy": dict.fromkeys(confusion, 0.5)}]
    verdict = RULES["single-class"](replace(run, summary=summary, metrics=metrics))
    assert verdict is not None
    assert verdict.text == (
        "Client 0 holds one class. class-mean takes 100.0 % of all images for class dog,"
        " where 25.0 % are of it."
    )
    assert verdict.problem == problem
    empty = replace(summary, confusion={primary: [[0, 0], [0, 0]], "class-mean": [[0, 0], [0, 0]]})
    verdict = RULES["single-class"](replace(run, summary=empty, metrics=metrics))
    assert verdict is not None
    assert verdict.text == "Client 0 holds one class."


def test_a_run_that_did_not_finish_says_so() -> None:
    run = record("v12-svhn-seed1")
    assert RULES["status"](run) is None
    stopped = RULES["status"](replace(run, summary=replace(run.summary, status="stopped")))
    assert stopped is not None
    assert stopped.text == "The run stopped; 50 of 50 rounds are recorded."
    killed = RULES["status"](replace(run, summary=Summary(), metrics=run.metrics[:12]))
    assert killed is not None
    assert "is still going, or was killed; 2 of 50" in killed.text


def test_a_loss_that_is_not_finite_is_reported() -> None:
    run = record("v12-svhn-seed1")
    warning = {"event": "warning", "kind": "non-finite", "message": "", "client": 3, "round": 2}
    verdict = RULES["non-finite"](replace(run, metrics=[*run.metrics, warning]))
    assert verdict is not None
    assert "on client 3, first in round 2" in verdict.text
    assert RULES["non-finite"](run) is None


@pytest.mark.parametrize("method", ["v4", "v7"])
def test_a_healthy_run_is_called_so(method: str, tmp_path: Path) -> None:
    result = Experiment(method=method, train={"rounds": 3}, seed=3, out=tmp_path / "run").run()
    verdicts = diagnose(read_run(result.folder))
    assert verdicts[0].text == "No problem shows in these records."
    assert not any(verdict.problem for verdict in verdicts)


def test_the_command_says_it_and_names_what_is_not_a_run(tmp_path: Path) -> None:
    done = command("diagnose", str(RECORDS / "v12-svhn-seed1"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Lambda ran away on clients 1, 2, 3" in done.stdout
    (tmp_path / "empty").mkdir()
    for name, why in [
        ("nothing", "no such folder"),
        ("empty", "is not a run's folder (no config.yaml)"),
    ]:
        done = command("diagnose", name, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr == f"error: {name}: {why}\n"


def test_a_lambda_that_held_is_said_to_have_held() -> None:
    verdict = RULES["held"](record("v12-gamma-svhn-seed1"))
    assert verdict is not None
    assert "reached at most 5.09 times B/A of round 0" in verdict.text
    assert RULES["held"](record("v12-svhn-seed1")) is None


def test_a_method_that_is_not_installed_is_judged_by_everything_but_its_lambda() -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    here = [verdict.about for verdict in diagnose(run)]
    found = diagnose(replace(run, settings={**run.settings, "method": "elsewhere"}))
    assert "runaway" in here
    by_lambda = ("runaway", "held", "divided", "cancelled", "slow-sigma")
    assert [verdict.about for verdict in found] == [
        *(about for about in here if about not in by_lambda), "method"
    ]  # fmt: skip
    assert found[-1].text == (
        "Method 'elsewhere' is not installed here: what its lambda should have done is not judged."
    )
    assert not found[-1].problem


def test_a_method_with_other_options_here_says_which() -> None:
    run = read_run(RECORDS / "v12-svhn-seed1")
    last = diagnose(replace(run, settings={**run.settings, "align.strange": 1}))[-1]
    assert last.text.startswith("Method 'v12' cannot be built here (align.strange=1: ")


def test_what_a_server_refused_and_what_nobody_describes_are_problems() -> None:
    run = record("v12-gamma-svhn-seed1")
    said = {"refused": "the upload of north: answers another task", "undescribed-classes": "no ring"}
    warned = [{"event": "warning", "kind": kind, "message": text} for kind, text in said.items()]
    told = replace(run, metrics=[*warned, *run.metrics])
    refused, undescribed = (RULES[about](told) for about in ("refused", "undescribed"))
    assert refused is not None
    assert undescribed is not None
    assert refused.text == f"1 file was refused; the model is made of the others: {said['refused']}."
    assert (undescribed.text, undescribed.problem) == ("No ring.", True)
    assert RULES["refused"](run) is None
    assert RULES["undescribed"](run) is None
