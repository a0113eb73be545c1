"""What goes down to a site: the experiment, the weights to start from, what to align to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from torch import Tensor

from anchorfl.data import ImageFacts
from anchorfl.errors import UserError
from anchorfl.messages.codec import digest, pack, unpack
from anchorfl.messages.start import Start
from anchorfl.tensors import Tensors, prefixed, section


@dataclass(frozen=True)
class Task:
    """The same for every site, so that all start from the same weights and prototypes.

    `settings` are those of the experiment, `method` among them, without what is each machine's own
    business; `needs` names the statistics that an upload must contain. `encoder` is the network that
    the weights are of. `target` is what the method's sites align to: anchors, a bank, the prototypes of
    the round before, or nothing. `round` is the first that the site trains, `first` the hash of the
    first task; a later task without weights leaves a site its own.
    """

    settings: Mapping[str, object]
    facts: ImageFacts
    weights: Tensors
    needs: tuple[str, ...] = ()
    target: Tensor | None = None
    class_names: tuple[str, ...] = ()
    encoder: str = ""
    round: int = 0
    first: str = ""
    start: Start | None = None

    @cached_property
    def hash(self) -> str:
        """Names the experiment: of the first task, whichever round this one is for."""
        return self.first or digest(self._content(), self.tensors())

    def to_bytes(self) -> bytes:
        content = {**self._content(), "round": self.round, "hash": self.hash}
        return pack("task", content, self.tensors())

    def _content(self) -> dict[str, object]:
        return {
            "settings": dict(self.settings),
            "needs": list(self.needs),
            "facts": asdict(self.facts),
            "class_names": list(self.class_names),
            "encoder": self.encoder,
            **({} if self.start is None else {"start": self.start.content()}),
        }

    def tensors(self) -> Tensors:
        """Weights, target and start by name; what the start contains is not among the weights again."""
        tensors = prefixed("weights", self.weights)
        if self.start is not None:
            same = self.start.network_weights()
            own = {key: value for key, value in self.weights.items() if value is not same.get(key)}
            tensors = {**prefixed("weights", own), **prefixed("start", self.start.tensors())}
        return tensors if self.target is None else {**tensors, "target": self.target}

    def later(self, number: int, weights: Tensors, target: Tensor | None) -> Task:
        """The task of a later round of the same experiment."""
        return replace(self, weights=weights, target=target, round=number, first=self.hash)

    @staticmethod
    def from_bytes(data: bytes) -> Task:
        content, tensors = unpack("task", data)
        try:
            settings, facts = dict(content["settings"]), ImageFacts.from_json(content["facts"])
            needs, names = (tuple(map(str, content[key])) for key in ("needs", "class_names"))
            encoder, first = str(content["encoder"]), str(content["hash"])
            number = int(content["round"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError("this task contains no experiment") from None
        if not re.fullmatch("[0-9a-f]{64}", first):
            raise UserError("this task's hash is none")
        if names and len(names) != facts.classes:
            raise UserError("this task names other classes than it counts")
        weights, start = section(tensors, "weights"), None
        if "start" in content:
            start = Start.made_of(content["start"], section(tensors, "start"))
            weights = {**start.network_weights(), **weights}
        target = tensors.get("target")
        return Task(settings, facts, weights, needs, target, names, encoder, number, first, start)
