"""The pictures of README that the demo makes, and one of a run's page, by headless Chromium."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FIGURES = {
    "demo-partition.png": "v4-seed1/figures/partition.png",
    "demo-accuracy.png": "accuracy.png",
    "demo-lambda.png": "v12-batch-seed1/figures/lambda.png",
}
PAGES = {"report.png": "v12-batch-seed1/report.html"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pictures_of_the_demo(images: Path, rounds: str | None = None) -> None:
    """Three minutes on two cores, unless the rounds are fewer than its own."""
    shorter = [] if rounds is None else ["--rounds", rounds]
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "anchorfl", "demo", *shorter], cwd=folder, check=True)
        take(Path(folder, "runs", "demo"), images)


def take(demo: Path, images: Path) -> None:
    """From a finished demo's folder."""
    for name, made in FIGURES.items():
        shutil.copyfile(demo / made, images / name)
    for name, page in PAGES.items():
        if not photograph(demo / page, images / name):
            print(f"{name} is left as it was: no Chromium here draws {page}")


def photograph(page: Path, picture: Path) -> bool:
    """A page's upper part as a browser shows it; False where none does."""
    with TemporaryDirectory() as profile:
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        size = ("--window-size=1280,1400", "--virtual-time-budget=5000")
        files = (f"--user-data-dir={profile}", f"--screenshot={profile}/page.png", page.as_uri())
        for browser in filter(None, map(shutil.which, BROWSERS)):
            subprocess.run([browser, *options, *size, *files], capture_output=True, timeout=120)
            if Path(profile, "page.png").exists():
                shutil.copyfile(f"{profile}/page.png", picture)
                return True
    return False
