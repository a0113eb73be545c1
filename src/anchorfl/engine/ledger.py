"""What a run adds up to while it goes: the content of summary.json."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

import torch

import anchorfl
from anchorfl.compute import device_name
from anchorfl.engine.events import Event, RoundEnded, Warned, round_from_record
from anchorfl.engine.federation import Federation, Outcome
from anchorfl.runs import Summary
from anchorfl.server import Cost, balanced_accuracy, macro_f1


class Ledger:
    """Listens, and adds up what the summary holds."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        self.started = time.perf_counter()
        self.rounds: list[RoundEnded] = []
        self.warnings: list[str] = []
        for record in federation.begun.records if federation.begun else ():
            if record["event"] == "round":
                self.rounds.append(round_from_record(record))
            elif record["event"] == "warning":
                self.warnings.append(record["message"])
        self.earlier = sum(event.seconds for event in self.rounds)

    def __call__(self, event: Event) -> None:
        if isinstance(event, RoundEnded):
            self.rounds.append(event)
        elif isinstance(event, Warned):
            self.warnings.append(event.message)

    def summary(self, status: str, outcome: Outcome | None, sizes: Mapping[int, int]) -> Summary:
        """What cannot be known of a run that did not finish is None."""
        config, dataset = self.federation.config, self.federation.dataset
        seen = [event for event in self.rounds if event.accuracy is not None]
        last = seen[-1] if seen else None
        fused = outcome.evaluation.confusions() if outcome else {}
        train_seconds = sum(event.train_seconds for event in self.rounds)
        trained = sum(event.samples for event in self.rounds)
        partition = self.federation.partition
        table = partition.label_table(dataset.train.labels, dataset.facts.classes)
        start = self.federation.task.start
        return Summary(
            method=config.method,
            dataset=dataset.name,
            seed=config.seed,
            status=status,
            rounds=len(self.rounds),
            final_accuracy=last.accuracy if last else None,
            peak_test_accuracy={
                name: max(event.accuracy[name] for event in seen if event.accuracy) for name in fused
            },
            validation_accuracy=last.validation_accuracy if last else None,
            balanced_accuracy={name: balanced_accuracy(fused[name]) for name in fused} or None,
            macro_f1={name: macro_f1(fused[name]) for name in fused} or None,
            local_accuracy=last.local_accuracy if last else None,
            confusion={name: fused[name].long().tolist() for name in fused} or None,
            seconds=self.earlier + time.perf_counter() - self.started,
            train_seconds=train_seconds,
            samples_per_second=trained / train_seconds if trained else None,
            task_bytes=len(self.federation.task.to_bytes()),
            upload_bytes=[sizes.get(number) for number in range(len(partition.clients))],
            exchange_bytes=exchange_bytes(outcome) if config.exchanges == 2 else None,
            partition_hash=partition.hash,
            start=None if start is None else start.hash,
            sites=list(self.federation.sites) or None,
            label_table=table.tolist(),
            images=asdict(dataset.facts),
            class_names=dataset.class_names,
            environment=environment(self.federation.device, config.general.threads),
            warnings=self.warnings,
            **self._calibration(outcome),
            **cost_entries(outcome),
        )

    def _calibration(self, outcome: Outcome | None) -> dict[str, Any]:
        """The temperatures that held-out data want, or each fusion's own, and how far off they are."""
        if outcome is None:
            return {}
        fusions = self.federation.config.fusion
        temperatures = {name: fusion.score_temperature for name, fusion in fusions.items()}
        if outcome.validation is not None:
            temperatures = outcome.validation.temperatures()
        errors = outcome.evaluation.calibration_errors(temperatures)
        return {"temperature": temperatures, "calibration_error": errors}


def exchange_bytes(outcome: Outcome | None) -> list[int] | None:
    """What the second exchange sends each client that uploaded: the others' encoders."""
    if outcome is None:
        return None
    sizes = [sum(value.nbytes for value in upload.trained.values()) for upload in outcome.uploads]
    return [sum(sizes) - own for own in sizes]


def cost_entries(outcome: Outcome | None) -> dict[str, Any]:
    """By fusion: bytes per client, the server's seconds, what a prediction takes."""
    costs = {name: asdict(cost) for name, cost in outcome.costs.items()} if outcome else {}
    return {
        item.name: {name: cost[item.name] for name, cost in costs.items()} or None
        for item in fields(Cost)
    }


def environment(device: torch.device, threads: int | None) -> dict[str, Any]:
    """What a run was made with."""
    return {
        "anchorfl": anchorfl.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(device),
        "threads": threads,
        "platform": platform.platform(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
    }
