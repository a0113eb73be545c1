"""The tables of docs/study.md: the diary's figures beside ours."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import yaml
from benchmarks.tables.figures import (
    DIARY,
    HERE,
    RULES,
    V10_FORMS,
    V12_FORMS,
    Row,
    at_round,
    fill,
    final,
    largest_lambda,
    lines,
    of_client,
    run,
    table,
)

from anchorfl.runs import percent, quantity


def accuracies(study: str, names: Sequence[str]) -> list[Row]:
    """The diary's figure, then ours by rule, then the largest lambda."""
    reported = DIARY["accuracy"].get(study, {})
    rows = [["", "the diary", *(f"`{rule}`" for rule in RULES), "largest lambda"]]
    for name in names:
        place = f"study/{study}/{name}"
        diary = f"{reported[name]:.2f}" if name in reported else ""
        rows.append(
            [f"`{name}`", diary, *(final(place, rule) for rule in RULES), largest_lambda(place)]
        )
    return rows


@table("claims")
def claims() -> list[Row]:
    """Every item of the diary; the figures in the sentences are those of the records."""
    content = yaml.safe_load((HERE / "claims.yaml").read_text())
    rows = [["", "what the diary says", "verdict", "why"]]
    for item in content:
        rows.append([str(item["item"]), item["says"], f"**{item['verdict']}**", fill(item["why"])])
    return rows


@table("001-accuracy")
def table_001() -> list[Row]:
    return accuracies("001", ("v4", "v7", "v7-linear", "v9", "v9-linear", *V10_FORMS))


@table("001-seeds")
def seeds_001() -> list[Row]:
    rows = [["", "`feature-mean`, by seed", "mean", "`class-mean`", "mean", "`sketch-guided`", "mean"]]
    for name in ("v7-linear", "v9-linear", "v10"):
        places = [f"study/001/{name}{end}" for end in ("", "-seed2", "-seed3")]
        cells = []
        for rule in ("feature-mean", "class-mean", "sketch-guided"):
            found = [final(place, rule) for place in places]
            cells += [" ".join(found), f"{statistics.mean(map(float, found)):.1f}"]
        rows.append([f"`{name}`", *cells])
    return rows


@table("v9-entropy")
def v9_entropy() -> list[Row]:
    rows = [["client", "samples", "entropy, bits", "the diary", "lambda", "the diary"]]
    place = "study/001/v9-linear"
    for client, (entropy, _, reported) in enumerate(DIARY["v9"]):
        counts = [count for count in run(place).class_counts(client) if count]
        shares = [count / sum(counts) for count in counts]
        own = -sum(share * math.log2(share) for share in shares)
        found = of_client(place, client, 0, "lambda_raw")
        rows.append(
            [
                str(client),
                f"{sum(counts):,}",
                f"{own:.4f}",
                f"{entropy:.4f}",
                f"{found:.4f}",
                f"{reported:.4f}",
            ]
        )
    return rows


@table("v10-lambda")
def v10_lambda() -> list[Row]:
    rows = [
        [
            "round",
            *(f"client {k}, ours" if i else f"client {k}, diary" for k in range(5) for i in (0, 1)),
        ]
    ]
    for wanted, reported in DIARY["v10"].items():
        cells = []
        for client, value in enumerate(reported):
            own = of_client("study/001/v10", client, wanted, "lambda_raw")
            cells += [f"{value:.1f}", f"{own:.1f}"]
        rows.append([str(wanted), *cells])
    return rows


@table("000-accuracy")
def table_000() -> list[Row]:
    return accuracies("000", ("v7-linear", "v9-linear", "v11-linear", "v11-cosine", "v7"))


@table("v11-lambda")
def v11_lambda() -> list[Row]:
    head = ["round", "s, linear", "C0 / C1, the diary", "C0 / C1", "s lambda", "s, cosine"]
    rows = [[*head, "C0 / C1, the diary", "C0 / C1", "s lambda"]]
    for wanted, reported in enumerate(DIARY["v11"]):
        cells = []
        for form, (first, second) in (("linear", reported[:2]), ("cosine", reported[2:])):
            place = f"study/000/v11-{form}"
            s = of_client(place, 0, wanted, "anneal")
            own = [of_client(place, client, wanted, "lambda_raw") for client in (0, 1)]
            cells += [f"{s:.3f}", f"{first:.1f} / {second:.1f}"]
            cells += [f"{own[0]:.1f} / {own[1]:.1f}", f"{s * own[0]:.1f} / {s * own[1]:.1f}"]
        rows.append([str(wanted), *cells])
    return rows


@table("002-accuracy")
def table_002() -> list[Row]:
    return accuracies("002", V12_FORMS)


@table("v12-lambda")
def v12_lambda() -> list[Row]:
    rows = [["round", "the diary", *(f"`{name}`" for name in V12_FORMS)]]
    for wanted in (*DIARY["v12"], 49):
        diary = quantity(DIARY["v12"][wanted][0]) if wanted in DIARY["v12"] else ""
        own = [quantity(of_client(f"study/002/{name}", 3, wanted, "lambda_raw")) for name in V12_FORMS]
        rows.append([str(wanted), diary, *own])
    return rows


def by_round_002(rule: str) -> list[Row]:
    rows = [["round", "the diary", *(f"`{name}`" for name in V12_FORMS)]]
    for wanted in (*DIARY["v12"], 49):
        diary = f"{DIARY['v12'][wanted][1]:.1f}" if wanted in DIARY["v12"] else "16"
        rows.append(
            [str(wanted), diary, *(at_round(f"study/002/{name}", rule, wanted) for name in V12_FORMS)]
        )
    return rows


@table("v12-feature-mean")
def v12_feature_mean() -> list[Row]:
    return by_round_002("feature-mean")


@table("v12-normalised-feature-mean")
def v12_normalised() -> list[Row]:
    return by_round_002("normalised-feature-mean")


def alphas_004(form: str) -> list[Row]:
    rows = [["alpha", *(f"round {r}, {who}" for r in (0, 1, 2, 5) for who in ("diary", "ours"))]]
    for alpha, reported in DIARY["004"].items():
        cells = []
        for wanted, value in zip((0, 1, 2, 5), reported[form[:2]], strict=True):
            cells += [f"{value:.1f}", at_round(f"study/004/{form}-{alpha}", "feature-mean", wanted)]
        rows.append([str(alpha), *cells])
    return rows


@table("004-v4")
def v4_004() -> list[Row]:
    return alphas_004("v4")


@table("004-v4-scrambled")
def scrambled_004() -> list[Row]:
    return alphas_004("v4-scrambled")


@table("004-v6")
def v6_004() -> list[Row]:
    return alphas_004("v6")


@table("004-remedies")
def remedies_004() -> list[Row]:
    names = ("v4", "v4-on-v6-draw", "v4-four-epochs", "v6", "v6-worded", "v6-curriculum")
    names += ("v6-adaptive", "v6-align2", "v6-align3", "v4-scrambled")
    rows = [["", *(f"`{rule}`" for rule in RULES)]]
    for name in names:
        rows.append([f"`{name}`", *(final(f"study/004/{name}-0.05", rule) for rule in RULES)])
    raw = lines("unnormalised.jsonl")[0]["unnormalised"]
    rows.append(["`v4-scrambled`, tested on raw images", *(percent(raw[rule]) for rule in RULES)])
    return rows


@table("004-inside")
def inside_004() -> list[Row]:
    """Within V6's first round: accuracies after every local epoch, and how the bank's term moves."""
    rows = [["client", "accuracy on", *(f"epoch {number}" for number in range(5))]]
    records = run("study/004/v6-worded-0.05").metrics
    epochs = [each for each in records if each["event"] == "epoch" and each["round"] == 0]
    for client in range(5):
        own = [each for each in epochs if each["client"] == client]
        for split in ("train", "test"):
            rows.append([str(client), split, *(percent(each[f"{split}_accuracy"]) for each in own)])
        ends = [(each["align_losses"][0], each["align_losses"][-1]) for each in own]
        rows.append([str(client), "A, first and last batch", *(f"{a:.2f} {b:.2f}" for a, b in ends)])
    return rows


def batchnorm(data: str, rounds: tuple[int, ...]) -> list[Row]:
    rules = ("normalised-feature-mean", "softmax-mean", "iffi", "parameter-mean")
    rows = [["round", *(f"`{rule}`" for rule in rules)]]
    for wanted in rounds:
        cells = []
        for rule in rules:
            pair = []
            for kind in ("recomputed", "running"):
                own = [x for x in lines(f"batchnorm-{data}.jsonl") if x["round"] == wanted]
                pair.append(percent(statistics.mean(x[rule] for x in own if x["batchnorm"] == kind)))
            cells.append(" / ".join(pair))
        rows.append([str(wanted), *cells])
    return rows


@table("batchnorm-cifar10")
def batchnorm_cifar10() -> list[Row]:
    return batchnorm("cifar10", (0, 4, 9, 19, 29))


@table("batchnorm-digits")
def batchnorm_digits() -> list[Row]:
    return batchnorm("digits", (0, 4, 9, 19))
