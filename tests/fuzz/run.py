"""Minutes of coverage-guided fuzzing, a reader at a time: make fuzz, or

    python -m tests.fuzz.run SECONDS [READER ...]

Each reader runs in a process of its own, which may take 1 GB and ten seconds for an input. Anything
but a UserError ends it with the input that did it, in fuzz/.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

FOUND = Path("fuzz")


def one(seconds: int, name: str) -> None:
    """In a process of its own: libFuzzer never returns."""
    import atheris

    with atheris.instrument_imports(include=["anchorfl"]):
        from anchorfl.errors import UserError
        from tests.fuzz.readers import READERS

    read, seeds = READERS[name]
    corpus = FOUND / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)

    def check(data: bytes) -> None:
        with suppress(UserError):
            read(data)

    limits = ["-rss_limit_mb=1024", "-timeout=10", "-max_len=200000", f"-max_total_time={seconds}"]
    found = f"-artifact_prefix={FOUND}/{name}-"
    atheris.Setup([sys.argv[0], str(corpus), *limits, found, "-print_final_stats=1"], check)
    atheris.Fuzz()


def main(seconds: str, *names: str) -> None:
    from tests.fuzz.readers import READERS

    failed = []
    for name in names or READERS:
        words = [sys.executable, "-m", "tests.fuzz.run", "--one", seconds, name]
        done = subprocess.run(words, capture_output=True, text=True)
        stats = [line[6:] for line in done.stderr.splitlines() if line.startswith("stat::")]
        counts = {key: value.strip() for key, _, value in (line.partition(":") for line in stats)}
        executed, memory = counts.get("number_of_executed_units"), counts.get("peak_rss_mb")
        print(f"{name}: exit {done.returncode}, {executed} inputs, {memory} MB at most", flush=True)
        if done.returncode:
            failed.append(name)
            print("\n".join(done.stderr.splitlines()[-40:]), flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(int(sys.argv[2]), sys.argv[3])
    else:
        main(*sys.argv[1:])
