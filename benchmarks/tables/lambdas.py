"""The tables of docs/lambda.md: what the lambdas did, and who foresaw it."""

from __future__ import annotations

import statistics

from benchmarks.tables.figures import (
    RULES,
    V10_FORMS,
    V12_FORMS,
    Row,
    at_round,
    encoder_share,
    final,
    forecast_error,
    guard_counts,
    largest_lambda,
    mean_of_clients,
    passes,
    peak,
    run,
    table,
)

from anchorfl.runs import NONE, quantity


@table("001-state")
def state_001() -> list[Row]:
    """Where training stands after the last round: losses, weights, gradients."""
    rows = [
        [
            "",
            "B",
            "A",
            "effective lambda",
            "weight of B",
            "gradient norm",
            "clip factor",
            "norm of held prototypes",
        ]
    ]
    for name in ("v4", "v7", "v7-linear", "v9-linear", *V10_FORMS):
        place = f"study/001/{name}"
        keys = ("base_loss", "align_loss", "lambda_effective", "base_weight", "gradient_norm")
        keys += ("clip_factor", "prototype_norm_seen")
        first = next(iter(run(place).clients.values()))[-1]
        rows.append(
            [f"`{name}`"]
            + [
                NONE if first.get(key) is None else quantity(mean_of_clients(place, key))
                for key in keys
            ]
        )
    return rows


MASKED = {
    "V12, seed 1": "v12-svhn-seed1",
    "V12-gamma, seed 1": "v12-gamma-svhn-seed1",
    "V12, seed 2": "v12-svhn-seed2",
    "V12-gamma, seed 2": "v12-gamma-svhn-seed2",
    "V12, group clipping, seed 1": "v12-group-svhn-seed1",
    "weight-annealed, seed 1": "weight-annealed-svhn-seed1",
}


@table("svhn-masked")
def svhn_masked() -> list[Row]:
    rule = "normalised-feature-mean"
    rows = [["", "largest lambda", f"`{rule}`, peak", "end", "`class-mean`, end"]]
    for words, name in MASKED.items():
        rows.append(
            [
                words,
                largest_lambda(name),
                peak(name, rule),
                final(name, rule),
                final(name, "class-mean"),
            ]
        )
    return rows


@table("svhn-forms")
def svhn_forms() -> list[Row]:
    rows = [
        [
            "",
            "largest lambda",
            "`feature-mean`, peak",
            "end",
            "`class-mean`, end",
            "`sketch-guided`, end",
        ]
    ]
    for name in V12_FORMS:
        place = f"study/002/{name}"
        ends = [final(place, rule) for rule in ("feature-mean", "class-mean", "sketch-guided")]
        rows.append([f"`{name}`", largest_lambda(place), peak(place, "feature-mean"), *ends])
    return rows


def one_client(name: str, client: int) -> list[Row]:
    rows = [["round", f"client {client}, raw lambda", "s(p)", "effective lambda", "stationary lambda"]]
    rows[0] += ["`feature-mean`", "`class-mean`"]
    for wanted in (0, 4, 9, 14, 19, 24, 29, 34, 39, 44, 49):
        record = run(name).clients[client][wanted]
        raw, s, effective = (record[key] for key in ("lambda_raw", "anneal", "lambda_effective"))
        cells = [quantity(raw), f"{s:.3f}", quantity(effective), quantity(record["lambda_stationary"])]
        rows.append(
            [str(wanted), *cells]
            + [at_round(name, rule, wanted) for rule in ("feature-mean", "class-mean")]
        )
    return rows


@table("svhn-v12")
def svhn_v12() -> list[Row]:
    return one_client("study/002/v12", 3)


@table("svhn-v12-gamma")
def svhn_gamma() -> list[Row]:
    return one_client("study/002/v12-gamma", 3)


@table("what-breaks")
def what_breaks() -> list[Row]:
    """From round 25 on: does the encoder still learn, and how long are the prototypes?"""
    head = ["", "clients that ran away", "their encoder's share of the gradient", "the others'"]
    rows = [[*head, "norm of held prototypes", "of prototypes not held", *(f"`{r}`" for r in RULES)]]
    for name in V12_FORMS:
        place = f"study/002/{name}"
        gone = sorted(passes(run(place)))
        rest = [k for k in run(place).clients if k not in gone]
        shares = []
        for clients in (gone, rest):
            least, most = encoder_share(place, clients, 25) if clients else (0.0, 0.0)
            shares.append(f"{quantity(least)} to {quantity(most)}" if clients else NONE)
        norms = [quantity(mean_of_clients(place, f"prototype_norm_{x}")) for x in ("seen", "unseen")]
        rows.append(
            [f"`{name}`", str(len(gone)), *shares, *norms, *(final(place, rule) for rule in RULES)]
        )
    return rows


DIGITS = {
    "V4": "v4",
    "V12": "v12",
    "V12-gamma, 0.02": "v12-gamma",
    "V12, classes of the batch": "v12-batch",
    "V12-gamma, 0.02, classes of the batch": "v12-gamma-batch",
}


@table("digits")
def digits() -> list[Row]:
    rows = [["", "`feature-mean`, seeds 1/2/3", "mean", "`class-mean`", "mean", "largest lambda"]]
    rows[0] += ["largest lambda over B/(2 gamma)"]
    for words, name in DIGITS.items():
        places = [f"digits/{name}-seed{seed}" for seed in (1, 2, 3)]
        cells = []
        for rule in ("feature-mean", "class-mean"):
            found = [final(place, rule) for place in places]
            cells += [" / ".join(found), f"{statistics.mean(map(float, found)):.1f}"]
        cells.append(" / ".join(largest_lambda(place) for place in places))
        cells.append(" / ".join(over_bound(place) for place in places) if "gamma" in name else "")
        rows.append([words, *cells])
    return rows


def over_bound(name: str) -> str:
    """The largest raw lambda over B/(2 gamma) of its round, over clients and rounds."""
    gamma = float(str(run(name).settings["align.gamma"]))
    records = [record for own in run(name).clients.values() for record in own]
    return f"{max(r['lambda_raw'] * 2 * gamma / r['base_loss'] for r in records):.2f}"


GUARDED = {
    "V12, all forms, SVHN": [
        f"study/002/{name}" for name in ("v12-raw-cosine", "v12-raw-linear", "v12", "v12-batch")
    ],
    "log-annealed, SVHN": ["study/002/log-annealed"],
    "V12-gamma, SVHN": ["study/002/v12-gamma"],
    "V7, V9, V10, CIFAR-10": [
        f"study/001/{name}"
        for name in (
            "v7",
            "v7-linear",
            "v9",
            "v9-linear",
            *V10_FORMS,
            "v10-seed2",
            "v10-seed3",
            "v7-linear-seed2",
            "v9-linear-seed2",
            "v7-linear-seed3",
            "v9-linear-seed3",
        )
    ],
    "V7, V9, V11, CIFAR-100": [
        f"study/000/{name}" for name in ("v7-linear", "v9-linear", "v11-linear", "v11-cosine", "v7")
    ],
    "V12 and V12, group clipping, SVHN, masked": [
        *("v12-svhn-seed1", "v12-svhn-seed2", "v12-group-svhn-seed1")
    ],
    "weight-annealed, SVHN, masked": ["weight-annealed-svhn-seed1"],
    "V12-gamma, SVHN, masked": ["v12-gamma-svhn-seed1", "v12-gamma-svhn-seed2"],
    "V10-decoupled, CIFAR-10, masked": ["v10-decoupled-cifar10-seed1"],
    "V7, V9, V10, V12-gamma, CIFAR-10, masked": [
        f"{name}-cifar10-seed1" for name in ("v7", "v9", "v10", "v12-gamma")
    ],
    "V12, digits": [f"digits/v12-seed{seed}" for seed in (1, 2, 3)],
    "V12, digits, masked": [f"digits/v12-batch-seed{seed}" for seed in (1, 2, 3)],
    "V12-gamma, digits": [
        f"digits/v12-gamma{form}-seed{seed}" for form in ("", "-batch") for seed in (1, 2, 3)
    ],
}


@table("guard")
def guard() -> list[Row]:
    rows = [["", "clients", "passed ten times B/A of round 0", "alarm before that"]]
    rows[0] += ["alarm, never passed it", "no alarm, passed it"]
    return rows + [[words, *guard_counts(names)] for words, names in GUARDED.items()]


FORECAST = {
    **{f"`{name}`, SVHN": f"study/002/{name}" for name in V12_FORMS},
    **{f"`{name}`, CIFAR-10": f"study/001/{name}" for name in V10_FORMS},
    **{f"`{name}`, CIFAR-100": f"study/000/{name}" for name in ("v11-linear", "v11-cosine")},
    "V12, SVHN, masked, seed 1": "v12-svhn-seed1",
    "V12, group clipping, SVHN, masked": "v12-group-svhn-seed1",
    "weight-annealed, SVHN, masked": "weight-annealed-svhn-seed1",
    "V10-decoupled, CIFAR-10, masked": "v10-decoupled-cifar10-seed1",
}


@table("forecast")
def forecasts() -> list[Row]:
    rows = [["", "up to the alarm", "to the end"]]
    for words, name in FORECAST.items():
        errors = [forecast_error(name, up_to_alarm) for up_to_alarm in (True, False)]
        rows.append([words, *(f"{error:,.2f}" if error < 10 else quantity(error) for error in errors)])
    return rows
