"""Three sites on Flower: a SuperLink and three SuperNodes as processes, TLS, keys; make flower."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anchorfl import Experiment
from anchorfl.errors import UserError
from anchorfl.runs import Run, read_run
from anchorfl.settings import read_preset
from anchorfl.transport.flower_run import QUIET
from tests.seam.test_files import ENCODERS, PRESET, SITES, place, raw_lambdas, told

pytestmark = pytest.mark.flower
SPARE = ("south-2", "south-3")
"""Keys for a site that comes back: the link takes the old one for alive until it misses a heartbeat."""
BIN = Path(sys.executable).parent
__all__ = ["place"]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(happened: Callable[[], object], seconds: float, what: str) -> None:
    ends = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < ends, f"not within {seconds} s: {what}"
        time.sleep(0.2)


class Flower:
    """Flower's own commands, in a folder with certificates and keys made by stock tools."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.started = folder, free_port(), {}
        self.env = {**os.environ, **QUIET, "FLWR_HOME": str(folder / "home")}
        self.env["PATH"] = f"{BIN}:{self.env['PATH']}"
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{folder / "ca.pem"}"\n'
        )
        for name in ("ca", "stranger-ca"):
            self.call(
                *f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 2"
                f" -subj /CN={name} -keyout {name}.key -out {name}.pem".split()
            )
        (folder / "names.cnf").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.call(
            *[
                "openssl",
                "req",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-384",
                "-nodes",
                "-subj",
                "/CN=localhost",
                "-keyout",
                "server.key",
                "-out",
                "server.csr",
            ]
        )
        self.call(
            *[
                "openssl",
                "x509",
                "-req",
                "-in",
                "server.csr",
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-CAcreateserial",
                "-days",
                "2",
                "-extfile",
                "names.cnf",
                "-out",
                "server.pem",
            ]
        )
        for name in (*SITES, *SPARE, "stranger"):
            self.call("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", f"{name}.key")

    def call(self, *words: str) -> str:
        done = subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.log").open("w") as log:
            self.started[name] = subprocess.Popen(
                words, cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def link(self) -> None:
        certificates = "--ssl-ca-certfile ca.pem --ssl-certfile server.pem --ssl-keyfile server.key"
        others = "--enable-supernode-auth --database state.db --disable-runtime-dependency-installation"
        where = f"--host 127.0.0.1 --port {self.port}"
        self.start("link", "flower-superlink", *f"{certificates} {others} {where}".split())
        until(lambda: "running on https" in self.log("link"), 60, "SuperLink")

    def node(self, name: str, key: str, ca: str, config: str, *words: str) -> None:
        self.start(
            name,
            *f"flower-supernode --root-certificates {ca}.pem --superlink 127.0.0.1:{self.port}".split(),
            *f"--auth-supernode-private-key {key}.key --port {free_port()}".split(),
            *("--node-config", config, *words),
        )

    def site(self, name: str, key: str | None = None) -> None:
        own = f"data='{self.folder / 'apart' / name}' name='{name}' encoder='{ENCODERS[name]}'"
        alike = f"threads=1 device='cpu' telemetry=true work='{self.folder / f'work-{name}'}'"
        self.node(name, key or name, "ca", f"{own} {alike}")
        until(lambda: "SuperNode ID" in self.log(name), 60, name)

    def kill(self, name: str) -> None:
        os.killpg(self.started[name].pid, signal.SIGKILL)
        self.started.pop(name).wait()

    def run(self, task: str, out: str) -> subprocess.Popen[str]:
        words = ["server", "flower", task, "--sites", ",".join(SITES), "-o", out]
        return subprocess.Popen(
            [sys.executable, "-m", "anchorfl", *words],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def flower(place: Path) -> Iterator[Flower]:
    folder = place / "flower"
    folder.mkdir()
    (folder / "x.yaml").write_text(PRESET.replace("FUSION", "sketch-guided,class-mean"))
    shutil.copytree(place / "sites", folder / "apart")
    made = Flower(folder)
    try:
        made.link()
        for name in (*SITES, *SPARE):
            made.call("flwr", "supernode", "register", f"{name}.key.pub")
        for name in SITES:
            made.site(name)
        yield made
    finally:
        for name in list(made.started):
            made.kill(name)


def task(flower: Flower, name: str, *settings: str) -> str:
    words = [word for setting in settings for word in ("--set", setting)]
    told(flower.folder, "task", "new", "x.yaml", "../classes.txt", "-o", name, "--grey", *words)
    return name


@pytest.mark.parametrize("fusion", ["sketch-guided,class-mean", "joint-sketch-ridge,class-mean"])
def test_the_numbers_are_those_of_the_simulation(flower: Flower, place: Path, fusion: str) -> None:
    kind, here = fusion.partition(",")[0], flower.folder
    made = task(flower, f"{kind}.safetensors", f"fusion={fusion}", "server.min_sites=3")
    process = flower.run(made, f"model-{kind}")
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said + flower.log("link")
    assert "fused north, south, west" in said
    for name in SITES:
        own = ["--data", f"apart/{name}", "--name", name, "-o", f"{name}-{kind}.score"]
        told(here, "site", "evaluate", f"model-{kind}", *own)
    told(here, "server", "scores", f"model-{kind}", *(f"{name}-{kind}.score" for name in SITES))
    settings = read_preset(here / "x.yaml")
    method = str(settings.pop("method"))
    words = {"data.root": str(place / "sites"), "threads": 1, "device": "cpu", "fusion": fusion}
    Experiment(method, **{**settings, **words}, out=here / f"simulated-{kind}").run()
    simulated, by_flower = read_run(here / f"simulated-{kind}"), read_run(here / f"model-{kind}")
    assert by_flower.summary.confusion[kind] == simulated.summary.confusion[kind]
    assert by_flower.summary.sites == simulated.summary.sites
    assert raw_lambdas(by_flower) == raw_lambdas(simulated)
    assert len(raw_lambdas(simulated)) == 3


@pytest.mark.parametrize(
    ("key", "ca", "reason"),
    [("stranger", "ca", "Failed to activate"), ("west", "stranger-ca", "CERTIFICATE_VERIFY_FAILED")],
)
def test_a_strange_key_and_a_strange_certificate_are_refused(
    flower: Flower, key: str, ca: str, reason: str
) -> None:
    name = f"refused-{key}"
    config = f"data='{flower.folder / 'apart' / 'west'}' name='west'"
    flower.node(name, key, ca, config, "--max-retries", "1", "--max-wait-time", "5")
    until(lambda: flower.started[name].poll() is not None, 60, "refusal")
    assert flower.started.pop(name).returncode != 0
    assert reason in flower.log(name)


@pytest.mark.parametrize("needed", [2, 3])
def test_a_site_killed_in_the_middle_is_named(flower: Flower, needed: int) -> None:
    """Two of three go on with a warning; three of three end non-zero."""
    long = ("train.rounds=15", f"server.min_sites={needed}", "server.timeout=100")
    made = task(flower, f"long-{needed}.safetensors", *long)
    process = flower.run(made, f"model-{needed}")
    work = flower.folder / "work-south"
    until(lambda: len(list(work.glob("*/checkpoints/*"))) > 0, 60, "a checkpoint of south")
    flower.kill("south")
    said, _ = process.communicate(timeout=200)
    shutil.rmtree(work)
    flower.site("south", f"south-{needed}")
    assert "no answer from south" in said
    assert (process.returncode == 0) is (needed == 2)
    if needed == 2:
        assert read_run(flower.folder / "model-2").summary.sites == ["north", "west"]
    else:
        assert "2 of 3 sites" in said


@pytest.mark.parametrize(
    ("method", "fusion"),
    [("v12-gamma", "sketch-guided,joint-ridge"), ("fedavg", "parameter-mean"), ("none", "sketch-lda")],
)
def test_the_simulation_runtime_gives_the_records_of_one_process(
    method: str, fusion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anchorfl.simulate import on_flower

    nodes: list[int] = []
    run_simulation = on_flower.run_simulation

    def counted(server: object, client: object, count: int, **options: object) -> None:
        nodes.append(count)
        run_simulation(server, client, count, **options)

    monkeypatch.setattr(on_flower, "run_simulation", counted)
    words = {"train": {"rounds": 2}, "fusion": fusion, "seed": 1, "threads": 1, "device": "cpu"}
    here = Experiment(method, **words, out=tmp_path / "here").run()
    there = Experiment(method, **words, engine="flower", out=tmp_path / "there").run()

    def untimed(run: Run) -> list[dict[str, object]]:
        return [{k: v for k, v in each.items() if "second" not in k} for each in run.metrics]

    assert nodes == [5]
    assert untimed(there.run) == untimed(here.run)
    assert there.summary.final_accuracy == here.summary.final_accuracy
    assert there.summary.confusion == here.summary.confusion
    for number, own in enumerate(here.summary.upload_bytes):
        if own is not None:
            uploads = [run.files.upload(number).read_bytes() for run in (here.run, there.run)]
            assert uploads[0] == uploads[1]


def test_what_flower_cannot_measure_is_refused(tmp_path: Path) -> None:
    words = {"train": {"rounds": 1, "evaluate_inside": True}, "engine": "flower"}
    with pytest.raises(UserError, match="evaluate_inside"):
        Experiment("v4", **words, out=tmp_path / "run").run()
