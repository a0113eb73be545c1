"""The tables of a comparison, as text: the same on the console, on the page and in files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import mean, stdev

from anchorfl.report.compare.groups import OWN, Group, all_fusions, differing, draws, one_line, seed_of
from anchorfl.report.compare.sign_flip import sign_flip_p
from anchorfl.report.numbers import NONE, counted, percent, quantity
from anchorfl.report.table_files import Table


def accuracy_table(groups: Sequence[Group]) -> Table:
    """A row per group, a column per fusion, the best of each marked as far as it is written."""
    fusions = all_fusions(groups)
    several = len({tuple(group.seeds) for group in groups}) > 1
    names = ["method", "seeds"] if several else ["method"]
    rows = []
    for group in groups:
        words = [group.label, " ".join(group.seeds)][: len(names)]
        cells = [written(group.accuracy(name).values()) for name in fusions]
        rows.append([*words, *cells, quantity(group.largest_lambda)])
    best = set()
    for column, name in enumerate(fusions, len(names)):
        found = [group.accuracy(name) for group in groups]
        means = {row: round(100 * mean(own.values()), 1) for row, own in enumerate(found) if own}
        if len(means) > 1:
            best |= {(row, column) for row in means if means[row] == max(means.values())}
    headings = [*names, *(fusion_words(name, groups) for name in fusions), "largest lambda"]
    title = accuracy_title(groups)
    return Table("accuracy", title, headings, rows, len(names), frozenset(best))


def accuracy_by_fusion(groups: Sequence[Group]) -> Table:
    """The same where there is no room for a column per fusion."""
    rows = []
    for name in all_fusions(groups):
        for group in groups:
            own = group.accuracy(name).values()
            words = [fusion_words(name, [group]), group.label]
            rows += [[*words, written(own), quantity(group.largest_lambda)]] if own else []
    headings = ["fusion", "method", "accuracy", "largest lambda"]
    return Table("accuracy", accuracy_title(groups), headings, rows, names=2)


def difference_table(groups: Sequence[Group], baseline: Group) -> Table:
    """Every other group minus the baseline, paired by seed, with the test's p and how many seeds.

    Without a row where no seed of a group has the fusion and the baseline has both.
    """
    rows = []
    for name in all_fusions(groups):
        reference = baseline.accuracy(name)
        for group in groups:
            own = group.accuracy(name)
            paired = [own[seed] - reference[seed] for seed in sorted(own.keys() & reference.keys())]
            if paired and group is not baseline:
                cells = [written(paired, signed=True), quantity(sign_flip_p(paired)), str(len(paired))]
                rows.append([fusion_words(name, [group]), group.label, *cells])
    title = (
        f"accuracy minus that of {baseline.label}, points, on {setting(groups)}: mean ± standard"
        " deviation over the n seeds that both have, and p of the exact sign-flip test"
    )
    return Table("difference", title, ["fusion", "method", "difference", "p", "n"], rows, names=2)


def fusion_words(name: str, groups: Sequence[Group]) -> str:
    """A fusion, marked where it makes the predictor: of all groups that have it, or of those named."""
    having = [group for group in groups if group.accuracy(name)]
    primary = [group.label for group in having if group.primary == name]
    if not primary:
        return one_line(name)
    whose = "" if len(primary) == len(having) else f" of {', '.join(primary)}"
    return f"{one_line(name)} (primary{whose})"


def accuracy_title(groups: Sequence[Group]) -> str:
    every = {tuple(group.seeds) for group in groups}
    seeds = next(iter(every)) if len(every) == 1 else ()
    spread = f"mean ± standard deviation over seeds {', '.join(seeds)}".rstrip()
    return f"accuracy, %, on {setting(groups)}: {f'seed {seeds[0]}' if len(seeds) == 1 else spread}"


def setting(groups: Sequence[Group]) -> str:
    """What all the runs share: data set, draw, clients; and the number of their test images."""
    runs = [run for group in groups for run in group.runs]
    shared, sizes = runs[0].settings, {run.summary.test_images() for run in runs}
    draw = f"{shared['partition.kind']}, alpha {shared['partition.alpha']}"
    clients = f"{shared['partition.clients']} clients"
    (images,) = sizes if len(sizes) == 1 else [None]
    tested = "" if images is None else f", {counted(images, 'test image')}"
    return one_line(f"{shared['data.name']} ({draw}, {clients}{tested})")


def note_on(groups: Sequence[Group]) -> str:
    """Whose draws these are, what else sets methods apart, and which lambda is the largest."""
    runs = [run for group in groups for run in group.runs]
    told = {"code", *(key for group in groups for key in group.settings)}
    others = [key for key in differing(runs) if key not in told and not key.startswith(OWN)]
    notes = [draws(runs)]
    if others:
        notes.append(f"Methods also differ in {', '.join(others)}.")
    readings = {group.label: {run.lambda_reading for run in group.runs} for group in groups}
    unlike = [label for label, found in readings.items() if "lambda_effective" in found]
    if unlike and any("lambda_raw" in found for found in readings.values()):
        notes.append(f"Largest lambda: the effective one of {', '.join(unlike)}, else the raw one.")
    return one_line(" ".join(notes))


def written(shares: Collection[float], signed: bool = False) -> str:
    """The mean in percent, and the deviation where there is one; of differences with its sign."""
    if not shares:
        return NONE
    text = percent(mean(shares))
    if signed:
        text = f"{100 * mean(shares):+.1f}"
        text = "0.0" if text[1:] == "0.0" else text
    return f"{text} ± {percent(stdev(shares))}" if len(shares) > 1 else text


def tidy(groups: Sequence[Group]) -> list[list[object]]:
    """Headings, then a row per run and fusion with one value per cell; numbers are not rounded."""
    differing = list(dict.fromkeys(key for group in groups for key in group.settings))
    rows: list[list[object]] = [
        ["run", "method", *differing, "seed", "fusion", "accuracy", "largest lambda"]
    ]
    for group in groups:
        for run in group.runs:
            settings = [group.settings.get(key, run.settings.get(key, "")) for key in differing]
            largest = "" if run.largest_lambda is None else run.largest_lambda
            for name, share in (run.summary.final_accuracy or {}).items():
                accuracy = round(100 * share, 6)
                rows.append([run.folder, run.method, *settings, seed_of(run), name, accuracy, largest])
    return rows
