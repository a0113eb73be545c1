"""Figures of the recorded runs, as the tables and sentences of docs/ need them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from anchorfl.diagnose import forecast_run
from anchorfl.diagnose.guard import replay
from anchorfl.runs import NONE, Run, percent, quantity, read_run

HERE = Path(__file__).parent
RECORDS = HERE.parent / "records"
DIARY = yaml.safe_load((HERE / "diary.yaml").read_text())
RULES = ("feature-mean", "normalised-feature-mean", "class-mean", "sketch-guided")
V10_FORMS = ("v10", "v10-slow-sigma", "v10-local-first", "v10-decoupled")
V12_FORMS = ("v12-raw-cosine", "v12-raw-linear", "v12", "v12-batch", "v12-gamma", "log-annealed")
KINDS = {
    "digits": "digits",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
}
Row = list[str]
TABLES: dict[str, Callable[[], list[Row]]] = {}


def table(name: str) -> Callable[[Callable[[], list[Row]]], Callable[[], list[Row]]]:
    """Keep the function that makes the table of this name."""

    def keep(make: Callable[[], list[Row]]) -> Callable[[], list[Row]]:
        TABLES[name] = make
        return make

    return keep


@cache
def run(name: str) -> Run:
    """The run recorded under a name, such as study/001/v10."""
    return read_run(RECORDS / name)


@cache
def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDS / name).read_text().splitlines()]


def final(name: str, fusion: str) -> str:
    accuracy = run(name).summary.final_accuracy
    return NONE if accuracy is None or fusion not in accuracy else percent(accuracy[fusion])


def at_round(name: str, fusion: str, wanted: int) -> str:
    found = [each for each in run(name).evaluations if each["round"] == wanted]
    return percent(found[0]["accuracy"][fusion]) if found else NONE


def peak(name: str, fusion: str) -> str:
    best = max(run(name).evaluations, key=lambda each: each["accuracy"][fusion])
    return f"{percent(best['accuracy'][fusion])} (round {best['round']})"


def of_client(name: str, client: int, wanted: int, key: str) -> float:
    value: float = run(name).clients[client][wanted][key]
    return value


def mean_of_clients(name: str, key: str, wanted: int = -1) -> float:
    """A quantity at the end of a round, clients weighted by size."""
    records = [own[wanted] for own in run(name).clients.values()]
    return sum(r["samples"] * r[key] for r in records) / sum(r["samples"] for r in records)


def largest_lambda(name: str) -> str:
    return quantity(run(name).largest_lambda)


def passes(found: Run) -> dict[int, int]:
    """By client, the first round that ends above ten times B/A of round 0."""
    rounds = {}
    for client, records in found.clients.items():
        limit = 10 * records[0]["base_loss"] / records[0]["align_loss"]
        above = [each["round"] for each in records if each["lambda_effective"] > limit]
        if above:
            rounds[client] = above[0]
    return rounds


def guard_counts(names: list[str]) -> Row:
    """Clients; those that passed the limit; alarms before that, too many and missing."""
    clients = passed = before = needless = missing = 0
    for name in names:
        over, alarms = passes(run(name)), replay(run(name))
        clients += len(run(name).clients)
        passed += len(over)
        before += sum(k in alarms and alarms[k].round < over[k] for k in over)
        needless += len(alarms.keys() - over.keys())
        missing += len(over.keys() - alarms.keys())
    return [str(each) for each in (clients, passed, before, needless, missing)]


def forecast_error(name: str, up_to_alarm: bool) -> float:
    """The largest ratio between forecast and recorded lambda, over clients and rounds."""
    alarms = replay(run(name))
    worst = 0.0
    for client, points in forecast_run(run(name)).items():
        records = run(name).clients[client]
        end = alarms[client].round + 1 if up_to_alarm and client in alarms else len(records)
        for point, record in zip(points[:end], records, strict=False):
            worst = max(worst, abs(math.log(point.raw / record["lambda_raw"])))
    return math.exp(worst)


def encoder_share(name: str, clients: list[int], first_round: int) -> tuple[float, float]:
    """Least and largest share of the squared gradient norm that the encoder has, from a round on."""
    shares = [
        record["gradient_share_encoder"]
        for client in clients
        for record in run(name).clients[client][first_round:]
    ]
    return min(shares), max(shares)


FIGURE = re.compile(r"\{([^{}]+)\}")


def fill(text: str) -> str:
    """A sentence with its figures: {001/v10 feature-mean}, {002/v12 largest lambda}, ..."""
    return FIGURE.sub(lambda found: figure(found[1]), text)


def figure(words: str) -> str:
    """RUN FUSION [ROUND], RUN peak FUSION, RUN largest lambda, or RUN KEY CLIENT ROUND."""
    place, *what = words.split()
    name = place if (RECORDS / place).is_dir() else f"study/{place}"
    match what:
        case ["largest", "lambda"]:
            return largest_lambda(name)
        case ["peak", fusion]:
            return peak(name, fusion)
        case ["mean", key]:
            return quantity(mean_of_clients(name, key))
        case [fusion]:
            return final(name, fusion)
        case [fusion, wanted]:
            return at_round(name, fusion, int(wanted))
        case [key, client, wanted]:
            return quantity(of_client(name, int(client), int(wanted), key))
    raise ValueError(f"{words}: no such figure")
