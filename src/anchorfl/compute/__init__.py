"""Where and how numbers are computed: devices, batches, eager steps, CUDA graphs, kernels.

Nothing here knows a method, a client's samples or a message.
"""

from anchorfl.doors import door

__getattr__ = door(__name__, __file__)
