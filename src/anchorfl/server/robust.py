"""What a server does about sites that may lie within the rules: `server.robust`.

Admission finds what cannot be true. True sums of wrong labels, or an encoder that learned nothing, can
be: they are found by what the sites say of each other's classes, or not at all. A class that one site
alone holds cannot be checked by anybody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from anchorfl.fusion import Fusion
from anchorfl.messages import Upload
from anchorfl.statistics import STATISTICS

SUMS = "sketch_moments"
MEANS = "class_means"
LARGEST_SHARE = 2.0
"""A site counts for as many samples as two sites of the middle size at most."""
FAR = 3.0
ONE_CLASS, TWO_CLASSES = 4.0, 8.0


@dataclass(frozen=True)
class Belief:
    """Uploads as they are believed, the sites that are not, and why, in words."""

    uploads: Sequence[Upload]
    silenced: frozenset[str] = frozenset()
    doubts: list[str] = field(default_factory=list)

    def of(self, fusion: Fusion) -> list[Upload]:
        """What a fusion is made of: without the silenced sites.

        Where all described their samples under everybody's encoders they stay, and count for nothing.
        """
        if any(STATISTICS.get(need).exchange == 2 for need in fusion.needs):
            return [silent(each) if each.site in self.silenced else each for each in self.uploads]
        return [each for each in self.uploads if each.site not in self.silenced]


def silent(upload: Upload) -> Upload:
    """The same encoder, of no samples."""
    statistics = {name: torch.zeros_like(value) for name, value in upload.statistics.items()}
    counts = torch.zeros_like(upload.class_counts)
    return replace(upload, class_counts=counts, statistics=statistics)


def believe(rule: str, uploads: Sequence[Upload], min_count: int) -> Belief:
    """`off` believes everybody; the others also cap what a site counts for."""
    if rule == "off":
        return Belief(uploads)
    uploads = [upload.with_plain_sums() for upload in uploads]
    judged = (trimmed if rule == "capped" else cross_checked)(uploads, min_count)
    pairs = zip(judged.uploads, shares(uploads), strict=True)
    return replace(judged, uploads=[scaled(each, share) for each, share in pairs])


def shares(uploads: Sequence[Upload]) -> list[float]:
    """A factor per site, so that none counts for more than twice the median."""
    sizes = torch.tensor([float(upload.samples) for upload in uploads])
    most = LARGEST_SHARE * sizes.median()
    share: list[float] = (most / sizes.clamp(min=1)).clamp(max=1).tolist()
    return share


def scaled(upload: Upload, factor: float) -> Upload:
    if factor == 1:
        return upload
    statistics = {
        name: value * factor if name.endswith(("/triangle", "/cross")) else value
        for name, value in upload.statistics.items()
    }
    counts = (upload.class_counts * factor).ceil().to(upload.class_counts.dtype)
    return replace(upload, class_counts=counts, statistics=statistics)


def trimmed(uploads: Sequence[Upload], min_count: int) -> Belief:
    """Where three or more hold a class, who says something else of it is not believed of that class.

    That is: whose mean sketch lies three times as far from the others' median as they do.
    """
    means = class_sketches(uploads, min_count)
    doubts, dropped = [], torch.zeros(means.shape[:2], dtype=torch.bool)
    for label in range(means.shape[1]):
        owners = means[:, label].isfinite().all(dim=1).nonzero()[:, 0]
        if len(owners) < 3:
            continue
        own = means[owners, label]
        far = (own - own.median(dim=0).values).norm(dim=1)
        for place in (far > FAR * far.median().clamp(min=1e-6)).nonzero()[:, 0]:
            dropped[owners[place], label] = True
            site = uploads[int(owners[place])].site
            doubts.append(f"site {site} is not believed of class {label}: its mean lies far off")
    kept = [
        without_classes(each, row) if row.any() else each
        for each, row in zip(uploads, dropped, strict=True)
    ]
    return Belief(kept, doubts=doubts)


def without_classes(upload: Upload, classes: Tensor) -> Upload:
    """Nothing is believed of some classes: no count, no mean, no labelled sum."""
    statistics = dict(upload.statistics)
    for name, value in upload.statistics.items():
        if name == f"{MEANS}/mean":
            statistics[name] = value * (~classes[:, None]).to(value)
        elif name.endswith("moments/cross"):
            statistics[name] = value * (~classes).to(value)
    counts = upload.class_counts * ~classes
    return replace(upload, class_counts=counts, statistics=statistics)


def class_sketches(uploads: Sequence[Upload], min_count: int) -> Tensor:
    """K x C x width: each site's mean sketch of each class, NaN where it sent none."""
    cross = torch.stack([upload.statistic(SUMS)["cross"].cpu().double().T for upload in uploads])
    counts = torch.stack([upload.class_counts.cpu() for upload in uploads])
    return torch.where((counts >= min_count)[:, :, None], cross / counts[:, :, None], math.nan)


def cross_checked(uploads: Sequence[Upload], min_count: int) -> Belief:
    """Leave out whom several others contradict, and encoders that cannot tell their classes apart.

    As long as sites contradict each other, the one with most opponents is silenced, if it has more than
    any of them. Two who contradict each other alone are both believed: nobody can tell.
    """
    means = class_sketches(uploads, min_count)
    pairs = contradictions(means, torch.stack([upload.class_counts.cpu() for upload in uploads]))
    silenced: list[int] = []
    doubts = []
    while pairs and len(silenced) < (len(uploads) - 1) // 2:
        sites = sorted({site for pair in pairs for site in pair})
        opponents = {
            site: {other for pair in pairs for other in pair if site in pair} for site in sites
        }
        worst = max(sites, key=lambda site: len(opponents[site]))
        against = opponents[worst] - {worst}
        names = ", ".join(str(uploads[other].site) for other in sorted(against))
        if any(len(opponents[other]) >= len(opponents[worst]) for other in against):
            doubts.append(f"sites {uploads[worst].site} and {names} contradict each other")
            break
        silenced.append(worst)
        doubts.append(f"site {uploads[worst].site} is left out: sites {names} contradict it")
        pairs = {pair for pair in pairs if worst not in pair}
    kept = []
    blind = [place for place, upload in enumerate(uploads) if not tells_apart(upload, min_count)]
    if len(blind) == len(uploads):
        doubts.append("no encoder can tell its own classes apart")
        blind = []
    for place, upload in enumerate(uploads):
        if place not in silenced and place in blind:
            why = "it cannot tell its own classes apart"
            doubts.append(f"the encoder of site {upload.site} is left out: {why}")
            upload = without_means(upload)
        kept.append(upload)
    return Belief(kept, frozenset(uploads[place].site for place in silenced), doubts)


def contradictions(means: Tensor, counts: Tensor) -> set[tuple[int, int]]:
    """Pairs of sites that give one class two names, or one name to two classes.

    Of two class means m, m' of n and n' samples, D = |m - m'|^2 is about v/n + v'/n' where both are of
    one class, v = 1 - |m|^2 being the variance of rows of norm 1. Under four times that, and a quarter
    of what lies between different names, two names contradict each other: few samples prove nothing.
    Over eight times that, one name does, if D is half of what lies between different names: sites may
    see a class somewhat differently.
    """
    sites, labels = means.isfinite().all(dim=2).nonzero(as_tuple=True)
    cells = means[sites, labels][:, :-1]
    spread = (1 - cells.square().sum(dim=1)) / counts[sites, labels]
    distance = torch.cdist(cells, cells).square()
    ratio = distance / (spread[:, None] + spread)
    apart, named = sites[:, None] != sites, labels[:, None] == labels
    if not (apart & ~named).any():
        return set()
    usual = distance[apart & ~named].median()
    alike = (ratio < ONE_CLASS) & (distance < usual / 4)
    unlike = (ratio > TWO_CLASSES) & (distance > usual / 2)
    wrong = torch.where(named, unlike, alike)
    found = (wrong & apart).nonzero().tolist()
    return {(int(sites[one]), int(sites[other])) for one, other in found if sites[one] < sites[other]}


def tells_apart(upload: Upload, min_count: int) -> bool:
    """Whether its class means lie further from each other than its samples from their own mean.

    Between: the mean of 1 - cos(m_c, m_c'); within: the mean of 1 - |m_c|^2, the variance of rows of
    norm 1. One class alone gives no evidence.
    """
    if not upload.contains(MEANS):
        return True
    means = upload.statistic(MEANS)["mean"].double().cpu()
    means = means[upload.class_counts.cpu() >= min_count]
    if len(means) < 2:
        return True
    directions = F.normalize(means, dim=1)
    cosines = (directions @ directions.T)[~torch.eye(len(means), dtype=torch.bool)]
    return float((1 - cosines).mean()) > float((1 - means.square().sum(dim=1)).mean())


def without_means(upload: Upload) -> Upload:
    """Its encoder counts for nothing; its sums, which no encoder made, still do."""
    name = f"{MEANS}/mean"
    statistics = {**upload.statistics, name: torch.zeros_like(upload.statistics[name])}
    counts = torch.zeros_like(upload.class_counts)
    return replace(upload, class_counts=counts, statistics=statistics)
