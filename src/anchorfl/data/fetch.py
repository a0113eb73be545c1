"""Download official archives: with a progress bar, resumable, checked, unpacked with care."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from anchorfl.data.spec import DATASETS, Download
from anchorfl.errors import UserError

CHUNK = 1 << 18
Progress = Callable[[str, int, int | None], None]


def fetch_dataset(name: str, root: Path, progress: Progress) -> Path:
    """Put the official files of a data set where its reader looks; `progress(file, done, total)`."""
    spec = DATASETS.get(name)
    if not spec.downloads:
        raise UserError(f"{name}: there is nothing to fetch ({spec.summary})")
    folder = root / (spec.folder or name)
    for download in spec.downloads:
        packed = download.file.endswith((".tar.gz", ".zip"))
        target = (root if packed else folder) / download.file
        try:
            obtain(download, target, progress)
            if packed:
                unpack(target, root)
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            then = f" and unpack it to {folder}" if packed else ""
            raise UserError(
                f"{name}: cannot fetch {download.url} ({reason}); bring that file (md5 {download.md5})"
                f" to {target}{then}, or run the same command again"
            ) from None
    return folder


def obtain(download: Download, target: Path, progress: Progress) -> None:
    """Download to TARGET.part, going on where an earlier try broke off, then check the md5."""
    if target.is_file():
        if md5_of(target) == download.md5:
            return
        raise UserError(f"{target}: its md5 is not {download.md5}; delete it and fetch again")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".part")
    stream(download, partial, progress)
    if md5_of(partial) != download.md5:
        partial.unlink()
        raise UserError(
            f"{download.url}: the file received has another md5 than {download.md5}; it was deleted"
        )
    partial.rename(target)


def stream(download: Download, partial: Path, progress: Progress) -> None:
    done = partial.stat().st_size if partial.exists() else 0
    request = Request(download.url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urlopen(request, timeout=30) as response:
            if done and response.status != 206:
                done = 0
            length = response.headers.get("Content-Length")
            total = done + int(length) if length else None
            with partial.open("ab" if done else "wb") as file:
                while chunk := response.read(CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    progress(download.file, done, total)
        if total is not None and done < total:
            raise URLError(f"the connection broke off after {done} of {total} bytes")
    except HTTPError as error:
        if error.code != 416:  # 416: the partial file is already whole
            raise
    except HTTPException as error:
        raise URLError(f"the connection broke off ({type(error).__name__})") from None


def md5_of(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def unpack(archive: Path, root: Path) -> None:
    """Members may only land under root."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as content:
            content.extractall(root)
    else:
        with tarfile.open(archive) as content:
            content.extractall(root, filter="data")
