"""Malformed uploads and lies: (what was done, bytes, the reason that is expected)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from anchorfl.messages import pack, unpack
from anchorfl.tensors import Tensors

Case = tuple[str, bytes, str]
SUMS = "statistics/sketch_moments"
FINITE = "not finite"
SHAPE = "shapes|class counts are not|another total|do not fit"
KIND = r"is of torch\.\w+, not|no class counts in whole numbers"


def changed(data: bytes, change: Callable[[dict[str, object], Tensors], None]) -> bytes:
    """The same message with other content, its digest made anew: whoever lies can do that."""
    content, tensors = unpack("upload", data)
    change(content, tensors)
    return pack("upload", content, tensors)


def broken_bytes(data: bytes, draw: random.Random) -> Iterator[Case]:
    """Cut, turned round, lengthened, something else altogether."""
    for _ in range(30):
        yield "cut", data[: draw.randrange(len(data))], "not a valid|damaged"
    for _ in range(40):
        place = draw.randrange(len(data))
        turned = bytes([data[place] ^ (1 << draw.randrange(8))])
        yield f"bit {place}", data[:place] + turned + data[place + 1 :], "valid|damaged|format|answers"
    for count in (0, 7, 8, 9, 100, 10_000):
        yield f"{count} random bytes", draw.randbytes(count), "not a valid"
    yield "longer", data + b"\0" * 64, "not a valid"
    yield "header of 2^63", (2**63).to_bytes(8, "little") + data[8:], "not a valid"
    deep = b'{"__metadata__":{"upload":"' + b"[" * 50_000 + b'"}}'
    yield "deep", len(deep).to_bytes(8, "little") + deep, "not a valid"
    yield "another message", pack("description", {"site": "0"}, {"a": torch.zeros(1)}), "not a valid"


def wrong_content(data: bytes) -> Iterator[Case]:
    for site in ("", 0, -1, None, 1.5, ["0"], {}, True):
        yield f"site {site!r}", changed(data, setter("site", site)), "needs a name"
    for site in (" ", "north ", "a\nb", "\x1b[2J", "x" * 201):
        yield f"site {site!r}", changed(data, setter("site", site)), "must be printable"
    yield "network", changed(data, setter("network", "resnet18")), "is of resnet18, not of"
    yield "code", changed(data, setter("network", "subprocess:call")), "is of subprocess:call, not"
    yield "network []", changed(data, setter("network", [])), "is of"
    yield "samples", changed(data, setter("samples", 10**6)), "another total"
    for task in ("", "0" * 64, None, 5):
        yield f"task {task!r}", changed(data, setter("task", task)), "answers another task"


def setter(key: str, value: object) -> Callable[[dict[str, object], Tensors], None]:
    def change(content: dict[str, object], tensors: Tensors) -> None:
        content[key] = value

    return change


def wrong_tensors(data: bytes) -> Iterator[Case]:
    """Of each tensor: missing, of another shape or type, not finite; and one too many."""
    _, tensors = unpack("upload", data)

    def put(name: str, value: Tensor | None) -> bytes:
        def change(content: dict[str, object], own: Tensors) -> None:
            own.pop(name, None)
            if value is not None:
                own[name] = value

        return changed(data, change)

    for name, value in tensors.items():
        yield f"{name} missing", put(name, None), f"{SHAPE}|missing|no class counts|prototypes"
        longer = torch.cat([value, value]) if value.dim() else value[None]
        yield f"{name} longer", put(name, longer), SHAPE
        yield f"{name} flat", put(name, value[None]), SHAPE
        yield f"{name} float64", put(name, value.double()), KIND
        if value.dtype == torch.uint8:
            yield f"{name} nan", put(name, value | 0x7F), FINITE
        if value.dtype == torch.float32:
            yield f"{name} float16", put(name, value.half()), KIND
        if value.is_floating_point():
            yield f"{name} whole", put(name, value.long()), KIND
            for bad in (float("nan"), float("inf"), -float("inf")):
                wrong = value.clone()
                wrong.view(-1)[wrong.numel() // 2] = bad
                yield f"{name} {bad}", put(name, wrong), FINITE
        if name.endswith("running_var"):
            yield f"{name} negative", put(name, -1 - value), FINITE
    for dtype in (torch.float8_e4m3fn, torch.complex64, torch.bool, torch.bfloat16):
        lie = put("class_counts", tensors["class_counts"].to(dtype))
        yield f"class_counts {dtype}", lie, "in whole numbers"
    nan = put("class_counts", torch.full((10,), float("nan")))
    yield "class_counts nan", nan, "in whole numbers"
    yield "a key alone", put("statistics/class_means", torch.zeros(3)), "nobody asked for"
    huge = put("weights/prototypes", torch.full_like(tensors["weights/prototypes"], 3e38))
    yield "huge prototypes", huge, "without bound"
    yield "one too many", put("statistics/more/x", torch.zeros(3)), "nobody asked for"
    yield "a weight too many", put("weights/more", torch.zeros(3)), "do not fit"
    yield "far too large", put("statistics/more/x", torch.zeros(2_000_000)), "bytes, more than"


def wrong_counts(data: bytes) -> Iterator[Case]:
    def put(change: Callable[[Tensor], Tensor]) -> bytes:
        def apply(content: dict[str, object], own: Tensors) -> None:
            own["class_counts"] = change(own["class_counts"])
            content["samples"] = int(own["class_counts"].sum())

        return changed(data, apply)

    yield "negative", put(lambda c: c - c.max()), "negative|no samples"
    yield "none", put(lambda c: 0 * c), "no samples"
    yield "overflow", put(lambda c: c + 2**62), "max_samples|negative"
    yield "one more", put(lambda c: c + 10), "other counts|without samples"
    yield "moved", put(lambda c: c.roll(1)), "other counts|without samples"


def lies(data: bytes) -> Iterator[Case]:
    """Sums times a factor; sums that are none; every class claimed, with the means of the first."""

    def times(factor: float) -> Callable[[dict[str, object], Tensors], None]:
        def change(content: dict[str, object], own: Tensors) -> None:
            for name in [name for name in own if "moments" in name]:
                own[name] = own[name] * factor

        return change

    for factor in (1000.0, 1e6, -1.0, 0.0, 2.0):
        reason = "counts|allow|direction|squared mean|is of"
        yield f"sums x {factor:g}", changed(data, times(factor)), reason

    def noise(content: dict[str, object], own: Tensors) -> None:
        for name in [name for name in own if "moments" in name]:
            own[name] = torch.randn(own[name].shape).to(own[name].dtype)

    yield "random sums", changed(data, noise), "counts|rows|squared mean"
    _, tensors = unpack("upload", data)
    yield from lies_in_a_factor(data) if f"{SUMS}/factor16" in tensors else lies_in_squares(data)

    def long_mean(content: dict[str, object], own: Tensors) -> None:
        own["statistics/class_means/mean"] *= 3

    yield "long means", changed(data, long_mean), "above 1"

    def everything(content: dict[str, object], own: Tensors) -> None:
        own["class_counts"] = torch.full_like(own["class_counts"], 10**9)
        content["samples"] = int(own["class_counts"].sum())
        means = own["statistics/class_means/mean"]
        own["statistics/class_means/mean"] = means[means.norm(dim=1).argmax()].expand_as(means).clone()

    yield "every class, 10^9 each", changed(data, everything), "max_samples"

    def everything_small(content: dict[str, object], own: Tensors) -> None:
        everything(content, own)
        own["class_counts"] = torch.full_like(own["class_counts"], 10**5)
        content["samples"] = int(own["class_counts"].sum())

    yield "every class, 10^5 each", changed(data, everything_small), "other counts"


def lies_in_squares(data: bytes) -> Iterator[Case]:
    """Sums that no rows of norm 1 have, in 32 bits."""

    def keeps_the_rim(content: dict[str, object], own: Tensors) -> None:
        triangle = own[f"{SUMS}/triangle"]
        triangle[1] = 10 * own["class_counts"].sum()  # beside the diagonal: no sum of squares

    yield "no sum of squares", changed(data, keeps_the_rim), "negative direction"

    def long_class(content: dict[str, object], own: Tensors) -> None:
        cross = own[f"{SUMS}/cross"]
        cross[0, int(own["class_counts"].argmax())] += 2 * own["class_counts"].sum()

    yield "a long sum", changed(data, long_class), "differ|longer"


def lies_in_a_factor(data: bytes) -> Iterator[Case]:
    """The same as a factor, which has no negative direction whatever it is."""

    def wide(content: dict[str, object], own: Tensors) -> None:
        own[f"{SUMS}/norms"] *= 100

    yield "a wide spread", changed(data, wide), "allow"

    def long_class(content: dict[str, object], own: Tensors) -> None:
        own[f"{SUMS}/means"][:, int(own["class_counts"].argmax())] = 2.0**12

    yield "a long sum", changed(data, long_class), "allow|longer"

    def both(content: dict[str, object], own: Tensors) -> None:
        own[f"{SUMS}/triangle"] = torch.zeros(3)

    yield "squares as well", changed(data, both), "shapes"

    def half_a_column(content: dict[str, object], own: Tensors) -> None:
        own[f"{SUMS}/factor16"] = own[f"{SUMS}/factor16"][:-1]
        own[f"{SUMS}/factor8"] = torch.cat([own[f"{SUMS}/factor8"], torch.zeros(1).byte()])

    yield "half a column", changed(data, half_a_column), "shapes"

    def no_number(content: dict[str, object], own: Tensors) -> None:
        own[f"{SUMS}/factor8"][7] = 0xFF

    yield "no number", changed(data, no_number), FINITE

    def too_many(content: dict[str, object], own: Tensors) -> None:
        own[f"{SUMS}/factor16"] = torch.zeros(10**6).half()

    yield "too many", changed(data, too_many), "shapes|bytes, more than"

    def scaled(factor: float) -> Callable[[dict[str, object], Tensors], None]:
        def change(content: dict[str, object], own: Tensors) -> None:
            for part in ("counts", "norms"):
                own[f"{SUMS}/{part}"] *= factor

        return change

    for factor in (1000.0, 1e30, 2.0):
        yield f"a factor x {factor:g}", changed(data, scaled(factor)), "counts|allow|finite"


def all_cases(data: bytes, seed: int) -> Iterator[Case]:
    yield from broken_bytes(data, random.Random(seed))
    yield from wrong_content(data)
    yield from wrong_tensors(data)
    yield from wrong_counts(data)
    yield from lies(data)
