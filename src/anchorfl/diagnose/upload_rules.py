"""Verdicts on what a server was sent: uploads that it refused, classes that none describes."""

from __future__ import annotations

from anchorfl.diagnose.verdict import Verdict
from anchorfl.runs import Run


def messages(run: Run, kind: str) -> list[str]:
    return [str(record["message"]) for record in run.warnings if record["kind"] == kind]


def refused(run: Run) -> Verdict | None:
    reasons = messages(run, "refused")
    if not reasons:
        return None
    verb = "1 file was" if len(reasons) == 1 else f"{len(reasons)} files were"
    return Verdict("refused", f"{verb} refused; the model is made of the others: {'; '.join(reasons)}.")


def undescribed(run: Run) -> Verdict | None:
    found = messages(run, "undescribed-classes")
    if not found:
        return None
    text = f"{found[0][:1].upper()}{found[0][1:]}."
    return Verdict(
        "undescribed", text, subject="classes", advice="Add a site that holds enough of them."
    )
