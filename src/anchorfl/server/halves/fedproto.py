"""FedProto: class means go round, weights stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from anchorfl.registry import SERVER_HALVES
from anchorfl.server.halves.base import ServerHalf
from anchorfl.wire import Task, Upload


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
        return replace(task, weights={}, target=target, round=task.round + 1, first=task.hash)
