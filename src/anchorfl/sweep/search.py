"""A sweep that chooses its own settings: Optuna on validation accuracy, never on the test set.

settings: {method: v12-gamma, data.name: digits, data.validation: 0.2, train.rounds: 10}
search:
  trials: 20
  vary:
    align.gamma: {low: 0.001, high: 1.0, log: true}
    train.lr: [0.01, 0.05, 0.1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any

from anchorfl.config import Config
from anchorfl.errors import UserError
from anchorfl.settings import read_preset, refuse_unused
from anchorfl.sweep.plan import Plan, Trial
from anchorfl.sweep.workers import Ended, claimed, earlier, results

RANGE_KEYS = {"low", "high", "log", "step"}
FIXED = {"fusion", "data.validation", "seed", "partition.seed"}


def optuna() -> Any:
    try:
        import optuna as found
    except ImportError:
        raise UserError("a search needs the extra: pip install 'anchorfl[sweep]'") from None
    found.logging.set_verbosity(found.logging.WARNING)
    return found


def distributions(vary: Mapping[str, Any]) -> dict[str, Any]:
    """A list is chosen from; {low, high} is a range, whole numbers where both ends are."""
    library, found = optuna().distributions, {}
    for key, values in vary.items():
        if isinstance(values, list) and values:
            found[key] = library.CategoricalDistribution(values)
        elif isinstance(values, dict) and {"low", "high"} <= set(values) <= RANGE_KEYS:
            whole = all(isinstance(values[end], int) for end in ("low", "high"))
            kind = library.IntDistribution if whole else library.FloatDistribution
            try:
                found[key] = kind(**values)
            except (ValueError, TypeError) as error:
                raise UserError(f"search.vary.{key}={values}: {error}") from None
        else:
            raise UserError(f"search.vary.{key}={values}: must be a list, or {{low: , high: }}")
    return found


def run_search(plan: Plan, on_end: Callable[[Ended], None]) -> list[Ended]:
    """Trials in the order of their validation accuracy under the primary fusion, best first."""
    config, vary, count = checked(plan)
    primary, spaces = next(iter(config.fusion)), distributions(vary)
    names = [f"trial{number:03d}" for number in range(count)]
    library = optuna()
    with claimed(plan.folder):
        chosen = {name: own for name in names if (own := chosen_earlier(plan, name, spaces))}
        ended = []
        for name, settings in chosen.items():
            done = earlier(plan.folder / name, Trial(name, {**plan.settings, **settings}))
            ended += [] if done is None else [done]
        sampler = library.samplers.TPESampler(seed=config.seed + len(ended))
        study = library.create_study(direction="maximize", sampler=sampler)
        for done in ended:
            params, value = {key: done.trial.settings[key] for key in spaces}, validated(done, primary)
            try:
                study.add_trial(
                    library.trial.create_trial(params=params, distributions=spaces, value=value)
                )
            except ValueError:
                raise UserError(f"{plan.folder / done.trial.name}: lies outside search.vary") from None
            on_end(done)
        free = iter([name for name in names if name not in {done.trial.name for done in ended}])
        asked: dict[str, Any] = {}

        def ask() -> Trial | None:
            name = next(free, None)
            if name is None:
                return None
            if name in chosen:
                study.enqueue_trial(chosen[name])
            asked[name] = study.ask(spaces)
            trial = Trial(name, {**plan.settings, **asked[name].params})
            trial.config(plan.folder)
            return trial

        with closing(results(plan, ask)) as found:
            for done in found:
                value, states = validated(done, primary), library.trial.TrialState
                state = states.FAIL if value is None else states.COMPLETE
                study.tell(asked[done.trial.name], value, state=state)
                ended.append(done)
                on_end(done)
    return sorted(ended, key=lambda each: -(validated(each, primary) or 0.0))


def checked(plan: Plan) -> tuple[Config, Mapping[str, Any], int]:
    """What all trials share, what varies, and how many there are."""
    search = plan.search or {}
    vary, count = search.get("vary"), search.get("trials")
    if set(search) - {"trials", "vary"} or not isinstance(vary, dict) or not vary:
        raise UserError("search: takes vary, a mapping of keys to values, and optionally trials")
    for key in FIXED & vary.keys():
        raise UserError(f"search.vary.{key}: cannot vary, because trials are compared by it")
    config = Trial("", plan.settings).config(plan.folder)
    if not config.data.validation:
        raise UserError("data.validation=0: a search chooses on held-out data, such as 0.2 of it")
    refuse_unused([*plan.settings, *vary], *vary.get("data.name", [config.data.name]))
    if not isinstance(count, int) or count < 1:
        raise UserError(f"search.trials={count}: must be a whole number, 1 or more")
    return config, vary, count


def chosen_earlier(plan: Plan, name: str, varied: Iterable[str]) -> dict[str, object] | None:
    """The settings that an earlier start chose for a trial."""
    file = plan.folder / name / "config.yaml"
    if not file.is_file():
        return None
    stored = read_preset(file)
    return {key: stored[key] for key in varied if key in stored}


def validated(done: Ended, fusion: str) -> float | None:
    return done.validation[fusion] if done.validation else None
