"""A federation on Flower, started and watched from one command, which fails where the run did."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anchorfl
from anchorfl.errors import UserError
from anchorfl.messages import checked_name

APP = Path(anchorfl.__file__).parent / "flower_app"
STARTED = re.compile(r"started run (\d+)")
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}
"""What keeps Flower and Ray from reporting, looking for updates and installing packages."""


def run_on_flower(
    task: Path, sites: str, out: Path, superlink: str | None, tell: Callable[[str], None]
) -> None:
    """Hand the app to a SuperLink, pass on what it prints, and look at how it ended.

    `flwr run` itself ends with 0 whatever became of the run. The SuperLink reads the task and writes
    the model where it runs, so the paths are its machine's.
    """
    names = [checked_name(name.strip()) for name in sites.split(",")]
    if len(set(names)) < len(names) or not all(re.fullmatch(r"[\w. -]+", name) for name in names):
        raise UserError(f"--sites {sites}: needs different names of letters, digits, '-', '_' and '.'")
    if not task.is_file():
        raise UserError(f"{task}: no such file")
    if out.exists() and any(out.iterdir()):
        raise UserError(f"--out {out}: holds something already; name a new folder")
    words = {"task": str(task.absolute()), "sites": sites, "out": str(out.absolute())}
    config = " ".join(f"{key}={json.dumps(value)}" for key, value in words.items())
    link = [superlink] if superlink else []
    number = None
    with subprocess.Popen(
        [flwr(), "run", str(APP), *link, "--run-config", config, "--stream"],
        env={**os.environ, **QUIET},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = []
        try:
            for line in process.stdout:
                said.append(line.rstrip())
                if found := STARTED.search(line):
                    number = found[1]
                if line.startswith("anchorfl: "):
                    tell(line.removeprefix("anchorfl: ").rstrip())
        except KeyboardInterrupt:
            process.terminate()
            if number is not None:
                stop = [flwr(), "stop", number, *link]
                subprocess.run(stop, env={**os.environ, **QUIET}, capture_output=True)
            raise
    if number is None:
        raise UserError(f"flwr run: {plain(' '.join(said))[-400:] or 'said nothing'}")
    ended = how_it_ended(number, link)
    if ended["status"] != "finished:completed":
        raise UserError(f"run {number} {ended['status']}: {ended.get('status-details') or 'no reason'}")
    traffic = ended.get("network-traffic", {}).get("total-bytes", 0)
    tell(f"run {number}: {ended['elapsed']:.1f} s, {traffic / 1e6:,.1f} MB over the network")


def how_it_ended(number: str, link: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [flwr(), "list", *link, "--run-id", number, "--format", "json"],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout)["runs"][0]
    except (ValueError, KeyError, IndexError):
        raise UserError(f"flwr list: {plain(done.stdout + done.stderr)[-400:]}") from None
    return found


def plain(text: str) -> str:
    """Without the frames that Flower draws around its errors."""
    return " ".join(re.sub("[\u2500-\u257f]", " ", text).split())


def flwr() -> str:
    """Flower's command, of this environment first."""
    beside = shutil.which("flwr", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("flwr")
    if found is None:
        raise UserError("flwr is not installed: pip install 'anchorfl[flower]'")
    return found
