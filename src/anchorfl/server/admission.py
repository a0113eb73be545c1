"""Uploads are hostile until admitted: bytes and a task in, an upload or the reason to refuse it out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anchorfl.config import Config
from anchorfl.data import ImageFacts
from anchorfl.describe import NOT_SINGLE, Claim, factored_shapes, in_full, is_factored
from anchorfl.errors import UserError
from anchorfl.fusion import SKETCH, Fusion
from anchorfl.messages import Description, Upload, complete, lacks
from anchorfl.methods import METHODS
from anchorfl.nn import Runners
from anchorfl.randomness import generator
from anchorfl.statistics import STATISTICS
from anchorfl.tensors import Tensors, section

HEADER = 1_000_000
"""Bytes that a message may have beside its tensors."""
PROBES = 16
LARGEST_SCORE = 1e6


@dataclass(frozen=True)
class Refusal:
    """An upload that was not admitted; the name of its site where it could be read."""

    reason: str
    site: str = ""

    def __str__(self) -> str:
        return f"the upload of {self.site or 'an unknown site'}: {self.reason}"


@dataclass(frozen=True)
class Admission:
    """What an upload is held to: the experiment, the shape of its images, its networks.

    `described` is how many numbers describe an image. `frozen` gives the part of a network, by its
    name, that uploads leave out.
    """

    config: Config
    facts: ImageFacts
    runners: Runners
    described: int
    frozen: Callable[[str], Tensors] = lambda name: {}

    def admit(self, upload: Upload, task: str, present: Collection[str] = ()) -> Upload | Refusal:
        """An upload that answers the task of this hash, from a site that is not yet present.

        It comes back complete, on the device that networks are on.
        """
        if upload.task != task:
            return Refusal("answers another task", upload.site)
        if upload.site in present:
            return Refusal("this site has uploaded already", upload.site)
        reason = self.doubt_in_network(upload)
        if reason is None:
            frozen = {upload.network: self.frozen(upload.network)}
            upload = complete([upload], frozen, self.runners.device)[0]
            reason = self.doubt(upload, exchanges=1)
        return upload if reason is None else Refusal(reason, upload.site)

    def refuse_large(self, size: int) -> None:
        """UserError for a message of more bytes than any upload can have."""
        if size > self.largest():
            raise UserError(f"has {size:,} bytes, more than {self.largest():,}")

    def largest(self) -> int:
        """Bytes of an upload with everything that the experiment asks for."""
        networks = [self.runners[name].network for name in self.runners.names]
        states = [each.state_dict().values() for each in networks]
        weights: int = max(sum(value.nbytes for value in values) for values in states)
        counts = torch.zeros(self.facts.classes)
        widths = [max(each.prototypes.shape[1] for each in networks)]
        numbers = 0
        for name in self.needed(1):
            shapes = STATISTICS.get(name).shapes
            shaped = shapes(Claim(counts, widths, self.described)) if shapes else {}
            numbers += sum(torch.Size(shape).numel() for shape in shaped.values())
        return weights + 4 * numbers + 8 * self.facts.classes + HEADER

    def needed(self, exchange: int) -> list[str]:
        """The statistics that are asked for in an exchange."""
        return [name for name in self.config.needs if STATISTICS.get(name).exchange == exchange]

    def doubt(self, upload: Upload, exchanges: int, widths: Sequence[int] = ()) -> str | None:
        """Why an upload is refused, after one exchange or two.

        `widths` are those of all encoders' features, for the second.
        """
        return (
            self.doubt_in_counts(upload.class_counts)
            or self.doubt_in_weights(upload)
            or self.doubt_in_statistics(upload, upload.statistics, range(1, exchanges + 1), widths)
        )

    def doubt_in_network(self, upload: Upload) -> str | None:
        if upload.network and upload.network not in self.runners.names:
            return f"is of {upload.network[:80]}, not of {', '.join(self.runners.names)}"
        trains = METHODS.get(self.config.method).trains
        if bool(upload.trained) != trains:
            return "contains no weights" if trains else "contains weights, and nothing is trained"
        return None

    def doubt_in_counts(self, counts: Tensor) -> str | None:
        if counts.dtype != torch.int64 or counts.shape != (self.facts.classes,):
            return f"its class counts are not {self.facts.classes} whole numbers"
        if (counts < 0).any():
            return "a class count is negative"
        most = self.config.server.max_samples
        if (counts > most).any() or int(counts.sum()) > most:
            return f"it names more samples than server.max_samples={most:,}"
        return "it names no samples" if not counts.any() else None

    def doubt_in_weights(self, upload: Upload) -> str | None:
        if not upload.trained:
            return None
        runner = self.runners[upload.network]
        wanted = runner.network.state_dict()
        try:
            runner.network.check(upload.weights)
        except UserError as error:
            return str(error)[:200]
        for name, value in upload.trained.items():
            if name in upload.frozen:
                return f"{name[:80]} is frozen and may not be uploaded"
            if value.shape != wanted[name].shape:
                shapes = f"{tuple(value.shape)}, not {tuple(wanted[name].shape)}"
                return f"weights do not fit the model: {name[:80]} is {shapes}"
            if value.dtype != wanted[name].dtype:
                return f"{name[:80]} is of {value.dtype}, not {wanted[name].dtype}"
            if not value.isfinite().all():
                return f"{name[:80]} has values that are not finite"
        pictures = torch.rand(PROBES, *self.facts.shape, generator=generator(0, "probe"))
        self.runners.evaluation_mode([upload.encoder])
        with torch.no_grad():
            features = self.runners.encode(upload.encoder, pictures.to(self.runners.device))
            scores = features @ upload.prototypes.T
        if not scores.isfinite().all() or float(scores.abs().max()) > LARGEST_SCORE:
            return "its answers are not finite, or without bound"
        return None

    def doubt_in_statistics(
        self, upload: Upload, statistics: Tensors, exchanges: Iterable[int], widths: Sequence[int]
    ) -> str | None:
        """Of an upload's statistics, or of those alone that came in one of the exchanges."""
        counts = upload.class_counts
        leaving = counts * (counts >= self.config.upload.min_count)
        own = [self.width_of(upload)] if upload.trained else []
        features = {1: own, 2: widths}
        known = {
            name: Claim(leaving, features[each], self.described)
            for each in exchanges
            for name in self.needed(each)
        }
        for key in statistics:
            if "/" not in key or key.partition("/")[0] not in known:
                return f"contains {key[:80]}, which nobody asked for"
        for name, claim in known.items():
            reason = doubt_in_statistic(name, section(statistics, name), claim)
            if reason is not None:
                return f"{name.replace('_', ' ')}: {reason}"
        return None

    def width_of(self, upload: Upload) -> int:
        return self.runners[upload.network].network.prototypes.shape[1]

    def widths_of(self, uploads: Sequence[Upload]) -> list[int]:
        """Of the features of all encoders that a second exchange describes samples under."""
        return [self.width_of(upload) for upload in uploads if upload.trained]

    def refuse_descriptions(
        self, uploads: Sequence[Upload], descriptions: Sequence[Description]
    ) -> None:
        """UserError where an answer to a second exchange, now part of its upload, cannot be true."""
        widths = self.widths_of(uploads)
        answers = {each.site: each.statistics for each in descriptions}
        for upload in uploads:
            own = {key: upload.statistics[key] for key in answers[upload.site]}
            reason = self.doubt_in_statistics(upload, own, [2], widths)
            if reason is not None:
                raise UserError(f"the answer of {upload.site}: {reason}")


def doubt_in_statistic(name: str, own: Tensors, claim: Claim) -> str | None:
    """Why tensors cannot be a statistic: names, shapes, types, finite values, and its own rules.

    Sums may come in any precision, whatever the task asks for.
    """
    statistic = STATISTICS.get(name)
    if not own:
        return "is missing"
    wanted = None if statistic.shapes is None else statistic.shapes(claim)
    if wanted is not None and statistic.sums and is_factored(own):
        columns, classes = wanted["cross"]
        wanted = factored_shapes(columns, classes, own["factor16"].numel())
    shapes = {key: tuple(value.shape) for key, value in own.items()}
    if wanted is not None and shapes != wanted:
        return f"has the shapes {str(shapes)[:200]}, not {wanted}"
    for key, value in own.items():
        kind = NOT_SINGLE.get(key, torch.float32) if statistic.sums else torch.float32
        if value.dtype != kind:
            return f"{key} is of {value.dtype}, not {kind}"
    full = in_full(own) if statistic.sums else own
    for key, value in {**own, **full}.items():
        if not value.isfinite().all():
            return f"{key} has values that are not finite"
    reason: str | None = statistic.doubt(full, claim)
    return reason


def what_is_lacking(fusions: Mapping[str, Fusion], uploads: Sequence[Upload]) -> dict[str, str]:
    """Why some of the fusions cannot be made of these uploads: the first thing they lack."""
    mixed = len({upload.network for upload in uploads}) > 1
    missing = {}
    for name, fusion in fusions.items():
        for need in fusion.needs[::-1]:
            if not all(upload.contains(need) for upload in uploads):
                missing[name] = f"{lacks(need)}; run again with fusion={name}"
        if mixed and not fusion.mixes:
            missing[name] = "these uploads are of different networks, and it takes one"
        if not any(upload.trained for upload in uploads) and fusion.reads != SKETCH:
            missing[name] = "these uploads contain no weights"
    return missing
