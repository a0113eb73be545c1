"""The tables of a comparison, as text: the same on the console, on the page and in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from anchorfl.report.compare.groups import Group, all_fusions, draws, one_line
from anchorfl.report.compare.sign_flip import sign_flip_p
from anchorfl.report.numbers import NONE, counted, percent, quantity


@dataclass(frozen=True)
class Table:
    """The first `names` columns are words, the others numbers; `best` are (row, column)."""

    name: str
    title: str
    headings: list[str]
    rows: list[list[str]]
    names: int = 1
    best: frozenset[tuple[int, int]] = frozenset()


def accuracy_table(groups: Sequence[Group]) -> Table:
    """A row per group, a column per fusion, the best of each marked."""
    fusions = all_fusions(groups)
    several = len({tuple(group.seeds) for group in groups}) > 1
    names = ["method", "seeds"] if several else ["method"]
    rows = []
    for group in groups:
        words = [group.label, " ".join(group.seeds)][: len(names)]
        cells = [mean_and_deviation(group.accuracy(name)) for name in fusions]
        rows.append([*words, *cells, quantity(group.largest_lambda)])
    best = {
        (row, column)
        for column, name in enumerate(fusions, len(names))
        for row in best_rows([group.accuracy(name) for group in groups])
    }
    headings = [*names, *(fusion_words(name, groups) for name in fusions), "largest lambda"]
    title = accuracy_title(groups)
    return Table("accuracy", title, headings, rows, len(names), frozenset(best))


def accuracy_by_fusion(groups: Sequence[Group]) -> Table:
    """The same where there is no room for a column per fusion."""
    rows = [
        [fusion_words(name, [group]), group.label, mean_and_deviation(group.accuracy(name)),
         quantity(group.largest_lambda)]
        for name in all_fusions(groups)
        for group in groups
        if group.accuracy(name)
    ]  # fmt: skip
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
                cells = [signed(paired), quantity(sign_flip_p(paired)), str(len(paired))]
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
    """What all the runs share: data set, draw, clients; and what they were tested on."""
    shared = groups[0].runs[0].settings
    draw = f"{shared['partition.kind']}, alpha {shared['partition.alpha']}"
    clients = f"{shared['partition.clients']} clients"
    return one_line(f"{shared['data.name']} ({draw}, {clients}{tested(groups)})")


def tested(groups: Sequence[Group]) -> str:
    """The number of test images, from fewest to most; nothing where a run does not hold it."""
    found = {run.summary.test_images() for group in groups for run in group.runs}
    sizes = sorted(size for size in found if size is not None)
    if len(sizes) < len(found):
        return ""
    fewest = f"{sizes[0]:,} to " if len(sizes) > 1 else ""
    return f", {fewest}{counted(sizes[-1], 'test image')}"


def note_on(groups: Sequence[Group]) -> str:
    """Whose draws these are; and of whom the largest lambda is another than the raw one of others."""
    found = {group.label: {run.lambda_reading for run in group.runs} for group in groups}
    unlike = [label for label, readings in found.items() if "lambda_effective" in readings]
    mixed = unlike and any("lambda_raw" in readings for readings in found.values())
    lambdas = f"Largest lambda: the effective one of {', '.join(unlike)}, else the raw one."
    drawn = draws([run for group in groups for run in group.runs])
    return f"{drawn} {one_line(lambdas)}" if mixed else drawn


def mean_and_deviation(by_seed: Mapping[str, float]) -> str:
    values = list(by_seed.values())
    if not values:
        return NONE
    return percent(mean(values)) + deviation(values)


def signed(differences: Sequence[float]) -> str:
    if not differences:
        return NONE
    text = percent(mean(differences)).replace("-0.0", "0.0")
    sign = "" if text.startswith("-") or text == "0.0" else "+"
    return sign + text + deviation(differences)


def deviation(values: Sequence[float]) -> str:
    return f" ± {percent(stdev(values))}" if len(values) > 1 else ""


def best_rows(columns: Sequence[Mapping[str, float]]) -> list[int]:
    """Those whose written mean is the largest, where there is anything to compare."""
    means = {row: mean(found.values()) for row, found in enumerate(columns) if found}
    top = percent(max(means.values(), default=None))
    return [row for row, value in means.items() if len(means) > 1 and percent(value) == top]
