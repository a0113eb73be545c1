"""FedAvg: every round starts from the mean of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anchorfl.registry import SERVER_HALVES
from anchorfl.server.fusion import mean_weights
from anchorfl.server.halves.base import ServerHalf
from anchorfl.wire import Task, Upload


@SERVER_HALVES.register("fedavg")
class FedAvg(ServerHalf):
    """All start again from the mean of the weights, by samples: the model of `parameter-mean`.

    Source: McMahan et al., 2017.
    """

    def step(self, task: Task, uploads: Sequence[Upload]) -> Task:
        return replace(task, weights=mean_weights(uploads), round=task.round + 1, first=task.hash)
