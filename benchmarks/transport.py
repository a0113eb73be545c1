"""What files and Flower add to a federation of three sites, against one process.

    python -m benchmarks.transport [--tiny] [--no-flower] > benchmarks/records/transport.jsonl

Digits as pictures at three sites, V4, two rounds: uploads of 1 MB (small-cnn) and 45 MB (resnet18).
On Flower everything is on this machine's loopback, without certificates. A line per way and size.
`--tiny`: the small uploads alone, of 300 pictures.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.shared import without_tiny
from PIL import Image
from sklearn.datasets import load_digits

from anchorfl.transport.flower_run import QUIET

SITES = ("north", "south", "west")
PRESET = """
method: v4
data: {name: sites, size: 8, flip: false}
model: {name: MODEL}
train: {rounds: 2, batch_size: 64}
fusion: sketch-guided
server: {min_sites: 3, timeout: 300}
threads: 1
device: cpu
"""
ENV = {**os.environ, **QUIET, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def pictures(folder: Path, most: int | None) -> None:
    digits = load_digits()
    pairs = list(zip(digits.images, digits.target, strict=True))[:most]
    for number, (image, label) in enumerate(pairs):
        home = folder / "sites" / SITES[number % 3] / str(label)
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 255 / 16).astype(np.uint8)).save(home / f"{number:05d}.png")
    (folder / "classes.txt").write_text("\n".join(map(str, range(10))))


def timed(folder: Path, *words: str) -> float:
    """Seconds of a command of anchorfl; it ends this one where it fails."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "anchorfl", *words], cwd=folder, env=ENV, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.perf_counter() - started


def by_files(folder: Path) -> dict[str, float]:
    """Site after site; the upload's way from one machine to another is left out."""
    task = "task.safetensors"
    parts = {"task": timed(folder, "task", "new", "x.yaml", "classes.txt", "-o", task, "--grey")}
    for name in SITES:
        where = ["--data", f"sites/{name}", "--name", name, "-o", f"{name}.upload"]
        alike = ["--device", "cpu", "--threads", "1"]
        parts[name] = timed(folder, "site", "train", task, *where, *alike)
    uploads = [f"{name}.upload" for name in SITES]
    parts["server"] = timed(folder, "server", "fuse", task, *uploads, "-o", "model")
    return parts


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def on_flower(folder: Path) -> dict[str, float]:
    """The run alone: the SuperLink and the SuperNodes are up before the clock starts."""
    port = free_port()
    env = {**ENV, "FLWR_HOME": str(folder / "flower")}
    (folder / "flower").mkdir()
    (folder / "flower" / "config.toml").write_text(
        '[superlink]\ndefault = "here"\n\n[superlink.here]\ninsecure = true\n'
        f'address = "127.0.0.1:{port}"\n'
    )
    link = f"flower-superlink --insecure --host 127.0.0.1 --port {port}"
    commands = [[*link.split(), "--disable-runtime-dependency-installation"]]
    for name in SITES:
        own = f"data='{folder / 'sites' / name}' name='{name}' device='cpu' threads=1"
        node = f"flower-supernode --insecure --superlink 127.0.0.1:{port} --port {free_port()}"
        commands.append([*node.split(), "--node-config", own])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = []
    try:
        for number, words in enumerate(commands):
            processes.append(subprocess.Popen(words, cwd=folder, env=env, **quiet))
            time.sleep(10 if number == 0 else 3)
        ENV["FLWR_HOME"] = env["FLWR_HOME"]
        words = ["task.safetensors", "--sites", ",".join(SITES), "-o", "flower-model"]
        return {"run": timed(folder, "server", "flower", *words)}
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def compare(folder: Path, model: str, most: int | None, flower: bool) -> None:
    pictures(folder, most)
    (folder / "x.yaml").write_text(PRESET.replace("MODEL", model))
    ways = {"one process": {"run": timed(folder, "run", "x.yaml", "data.root=sites", "out=run")}}
    ways["files"] = by_files(folder)
    size = (folder / "north.upload").stat().st_size
    if flower:
        ways["Flower"] = on_flower(folder)
    for way, parts in ways.items():
        rounded = {name: round(value, 1) for name, value in parts.items()}
        print(json.dumps({"way": way, "model": model, "upload_bytes": size, "seconds": rounded}))


def main(*words: str) -> None:
    named, tiny = without_tiny(words)
    for model in ("small-cnn",) if tiny else ("small-cnn", "resnet18"):
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), model, 300 if tiny else None, "--no-flower" not in named)


if __name__ == "__main__":
    main(*sys.argv[1:])
