"""The server's half of methods of many rounds: what it sends down after a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch

from anchorfl.fusion import mean_weights
from anchorfl.messages import Task, Upload
from anchorfl.registry import Registry


class ServerHalf(ABC):
    """`mixes` states whether sites may have different encoders."""

    mixes: ClassVar[bool] = False

    @abstractmethod
    def step(self, task: Task, uploads: Sequence[Upload]) -> Task:
        """The task of the next round, from the one before and what came up for it."""


SERVER_HALVES: Registry[type[ServerHalf]] = Registry("server half")


@SERVER_HALVES.register("fedavg")
class FedAvg(ServerHalf):
    """All start again from the mean of the weights, by samples: the model of `parameter-mean`.

    Source: McMahan et al., 2017.
    """

    def step(self, task: Task, uploads: Sequence[Upload]) -> Task:
        return task.later(task.round + 1, mean_weights(uploads), task.target)


@SERVER_HALVES.register("fedproto")
class FedProto(ServerHalf):
    """Everybody gets m_c = sum_k n_kc m_kc / sum_k n_kc, over the uploads with a mean of class c.

    Weights stay where they are. Source: FedProto, Tan et al., 2022.
    """

    def step(self, task: Task, uploads: Sequence[Upload]) -> Task:
        means = torch.stack([upload.statistic("class_means")["mean"] for upload in uploads])
        counts = torch.stack([upload.class_counts for upload in uploads]).to(means)
        counts = counts * means.any(dim=2)
        total = torch.einsum("kc,kcd->cd", counts, means)
        target = total / counts.sum(dim=0).clamp(min=1)[:, None]
        return task.later(task.round + 1, {}, target)
