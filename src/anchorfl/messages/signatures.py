"""Signatures of files with SSH keys, made and checked by OpenSSH: no cryptography of our own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from anchorfl.errors import UserError

NAMESPACE = "anchorfl"


def sign(file: Path, key: Path) -> Path:
    """FILE.sig beside the file."""
    signature = file.with_name(f"{file.name}.sig")
    signature.unlink(missing_ok=True)
    words = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file)]
    done = run(words)
    if done.returncode or not signature.is_file():
        raise UserError(f"--sign {key}: {in_one_line(done.stderr)}")
    return signature


def doubt_in_signature(file: Path, data: bytes, site: str, allowed: Path) -> str | None:
    """Why what was read from a file was not signed by the site that it names; None where it was."""
    signature = file.with_name(f"{file.name}.sig")
    if not signature.is_file():
        return f"is not signed ({signature.name} is missing)"
    words = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", site, "-n", NAMESPACE]
    done = run([*words, "-s", str(signature)], data)
    return f"its signature is not {site}'s ({in_one_line(done.stderr)})" if done.returncode else None


def run(words: list[str], fed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(words, input=fed, capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        raise UserError("signatures need OpenSSH's ssh-keygen, which is not installed") from None
    except subprocess.TimeoutExpired:
        raise UserError("ssh-keygen does not answer; a key with a passphrase needs an agent") from None


def in_one_line(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())[:200]
