"""A page as Chromium draws it, where there is one."""

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def starts(browser: str) -> bool:
    """A package may be a mere pointer to one that is not there."""
    done = subprocess.run([browser, "--version"], capture_output=True, timeout=60)
    return done.returncode == 0


CHROMIUM = next(filter(starts, filter(None, map(shutil.which, BROWSERS))), None)
NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]


def open_in_browser(page: Path, tmp_path: Path, *options: str) -> tuple[str, str, str]:
    """(document after its scripts ran, what the browser logged, its network log)."""
    network = tmp_path / "network.json"
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            f"--log-net-log={network}", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=5000", *options, "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout, done.stderr, network.read_text()
