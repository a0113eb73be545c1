"""What a run adds up to while it goes: the content of summary.json."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from anchorfl.events import Event, RoundEnded, Warned
from anchorfl.loop.rounds import Outcome, Rounds
from anchorfl.loop.stored import environment
from anchorfl.measures import balanced_accuracy, macro_f1
from anchorfl.runs import Summary


class Ledger:
    """Listens, and adds up what the summary holds."""

    def __init__(self, run: Rounds) -> None:
        self.run = run
        self.started = time.perf_counter()
        self.rounds: list[RoundEnded] = []
        self.warnings: list[str] = []
        for record in run.begun.records if run.begun else ():
            if record["event"] == "round":
                self.rounds.append(RoundEnded.from_record(record))
            elif record["event"] == "warning":
                self.warnings.append(record["message"])
        self.earlier = sum(event.seconds for event in self.rounds)

    def __call__(self, event: Event) -> None:
        if isinstance(event, RoundEnded):
            self.rounds.append(event)
        elif isinstance(event, Warned):
            self.warnings.append(event.message)

    def summary(
        self, status: str, outcome: Outcome | None = None, found: Mapping[str, Any] | None = None
    ) -> Summary:
        """What cannot be known of a run that did not finish is None; `found` is what else it left."""
        run, config, dataset = self.run, self.run.config, self.run.dataset
        seen = [event for event in self.rounds if event.accuracy is not None]
        last = seen[-1] if seen else None
        evaluation = outcome.evaluation if outcome else None
        fused = evaluation.confusions() if evaluation else {}
        train_seconds = sum(event.train_seconds for event in self.rounds)
        trained = sum(event.samples for event in self.rounds)
        table = run.partition.label_table(dataset.train.labels, dataset.facts.classes)
        start = run.task.start
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
            partition_hash=run.partition.hash,
            start=None if start is None else start.hash,
            sites=list(run.sites) or None,
            label_table=table.tolist(),
            images=asdict(dataset.facts),
            class_names=dataset.class_names,
            environment=environment(run.device, config.general.threads),
            warnings=self.warnings,
            **(found or {}),
        )
