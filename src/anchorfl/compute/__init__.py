"""Where and how numbers are computed: devices, batches, eager steps, CUDA graphs, kernels.

Nothing here knows a method, a client's samples or a message.
"""

from anchorfl.compute.batch import Batch
from anchorfl.compute.cuda_graphs import GraphStepper
from anchorfl.compute.devices import (
    Stopwatch,
    choose_device,
    choose_threads,
    cores,
    device_name,
    full_precision,
    images_at_once,
    send,
    set_precision,
    synchronise,
    using_threads,
    working_precision,
)
from anchorfl.compute.kernels import LUMA, kernels_work
from anchorfl.compute.stepper import EagerStepper, Step, Stepper, Steps

__all__ = [
    "LUMA",
    "Batch",
    "EagerStepper",
    "GraphStepper",
    "Step",
    "Stepper",
    "Steps",
    "Stopwatch",
    "choose_device",
    "choose_threads",
    "cores",
    "device_name",
    "full_precision",
    "images_at_once",
    "kernels_work",
    "send",
    "set_precision",
    "synchronise",
    "using_threads",
    "working_precision",
]
