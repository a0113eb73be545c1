"""What a rule says of a run, and what rules share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anchorfl.objective import yardstick
from anchorfl.runs import Record, Run

NAMED = 12
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Verdict:
    """What the rule `about` found; `problem` is False for what a user should know but need not mend.

    `advice` is what to do; of several verdicts on one `subject` only the first one's is given, so that
    a user never reads two cures for one illness.
    """

    text: str
    problem: bool = True
    subject: str = ""
    advice: str = ""
    about: str = ""


def repeats(verdict: Verdict, warning: str) -> bool:
    """Whether a verdict says what a run warned of while it went, from its second letter on."""
    return warning[1:] in verdict.text


def listed(clients: Iterable[int]) -> str:
    numbers = sorted(clients)
    if len(numbers) > NAMED:
        return f"{len(numbers)} clients ({', '.join(map(str, numbers[:NAMED]))}, ...)"
    return f"client{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def height(records: Sequence[Record]) -> float:
    """The largest effective lambda over B/A of round 0."""
    measure = yardstick(records[0]["base_loss"], records[0]["align_loss"])
    return float(max(record["lambda_effective"] for record in records) / measure)


def differ(run: Run, first: float, second: float) -> bool:
    """Whether two accuracies (0..1) differ by more than their test images leave to chance.

    Twice the standard error of the difference of two shares of n images, as if they were drawn apart,
    which is more than answers to the same images vary. Each share counts one right and one wrong
    image more, so that 0 and 1 have an error too. Runs that do not hold n are taken at their word.
    """
    images = run.summary.test_images()
    if images is None:
        return True
    shares = [(share * images + 1) / (images + 2) for share in (first, second)]
    error = math.sqrt(sum(share * (1 - share) / images for share in shares))
    return abs(first - second) > STANDARD_ERRORS * error
