"""The table of docs/deploy.md: what carrying the bytes costs."""

from __future__ import annotations

from benchmarks.tables.figures import Row, lines, table

WHERE = {
    "one process": "one start, three sites in turn",
    "files": "five commands start one after another",
    "Flower": "three sites at once",
}


@table("transport")
def transport() -> list[Row]:
    found = lines("transport.jsonl")
    sizes = sorted({x["upload_bytes"] for x in found})
    rows = [["", "", *(f"uploads of {size / 1e6:.1f} MB, s" for size in sizes)]]
    for way, remark in WHERE.items():
        own = {x["upload_bytes"]: x["seconds"] for x in found if x["way"] == way}
        rows.append([way, remark, *(f"{sum(own[size].values()):.1f}" for size in sizes)])
        for name, part in (("a site's command", "north"), ("the server's", "server")):
            if way == "files":
                rows.append(["", f"of which {name}", *(f"{own[size][part]:.1f}" for size in sizes)])
    return rows
