import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from anchorfl.data import DATASETS, fetch
from anchorfl.data.catalog import Download
from anchorfl.errors import UserError


class Server(ThreadingHTTPServer):
    """Serves `files`; breaks off the first `cuts` answers half way; remembers ranges asked for."""

    files: dict[str, bytes]
    cuts: int
    ranges: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.files[self.path]
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        rest = body[start:]
        if self.server.cuts:
            self.server.cuts -= 1
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.files, server.cuts, server.ranges = {}, 0, []
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def offer(server: Server, monkeypatch: pytest.MonkeyPatch, name: str, file: str, body: bytes) -> None:
    """Point a data set of the catalogue at the server."""
    server.files[f"/{file}"] = body
    url = f"http://127.0.0.1:{server.server_port}/{file}"
    spec = DATASETS.get(name)
    download = Download(url, hashlib.md5(body).hexdigest())
    changed = replace(spec, downloads=(download,))
    monkeypatch.setitem(DATASETS._entries, name, changed)


def archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def quiet(file: str, done: int, total: int | None) -> None:
    """No progress bar."""


def test_an_archive_is_downloaded_checked_and_unpacked(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = archive({"cifar-10-batches-py/data_batch_1": b"rows"})
    offer(server, monkeypatch, "cifar10", "cifar-10-python.tar.gz", body)
    seen: list[tuple[int, int | None]] = []
    folder = fetch.fetch_dataset(
        "cifar10", tmp_path, lambda file, done, total: seen.append((done, total))
    )
    assert (folder / "data_batch_1").read_bytes() == b"rows"
    assert seen[-1] == (len(body), len(body))
    fetch.fetch_dataset("cifar10", tmp_path, quiet)
    assert len(server.ranges) == 1


def test_a_broken_download_is_told_and_then_resumed(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body = bytes(range(256)) * 5000
    offer(server, monkeypatch, "svhn", "train_32x32.mat", body)
    server.cuts = 1
    with pytest.raises(UserError, match="broke off") as caught:
        fetch.fetch_dataset("svhn", tmp_path, quiet)
    assert str(tmp_path / "svhn" / "train_32x32.mat") in str(caught.value)
    fetch.fetch_dataset("svhn", tmp_path, quiet)
    assert server.ranges == [None, f"bytes={len(body) // 2}-"]
    assert (tmp_path / "svhn" / "train_32x32.mat").read_bytes() == body


def test_a_file_with_another_md5_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offer(server, monkeypatch, "svhn", "train_32x32.mat", b"right")
    server.files["/train_32x32.mat"] = b"wrong"
    with pytest.raises(UserError, match="another md5"):
        fetch.fetch_dataset("svhn", tmp_path, quiet)
    assert not list((tmp_path / "svhn").iterdir())


def test_offline_the_message_says_which_file_belongs_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = DATASETS.get("cifar10")
    dead = (Download("http://127.0.0.1:9/cifar-10-python.tar.gz", spec.downloads[0].md5),)
    monkeypatch.setitem(DATASETS._entries, "cifar10", replace(spec, downloads=dead))
    with pytest.raises(UserError) as caught:
        fetch.fetch_dataset("cifar10", tmp_path, quiet)
    message = str(caught.value)
    assert str(tmp_path / "cifar-10-python.tar.gz") in message
    assert spec.downloads[0].md5 in message


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "evil.tar.gz"
    path.write_bytes(archive({"../escaped": b"x"}))
    with pytest.raises(tarfile.TarError):
        fetch.unpack(path, tmp_path / "root")
    assert not (tmp_path / "escaped").exists()


def test_embedded_data_needs_no_fetching(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to fetch"):
        fetch.fetch_dataset("digits", tmp_path, quiet)
