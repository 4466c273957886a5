"""Copy buffers and compare the copies."""

from overside.tasks.offload import OffloadTask

TASK = OffloadTask(
    name="copy",
    description="copy buffers; each copy is compared with its original",
    operation=lambda parameters: "copy",
    own={},
)
