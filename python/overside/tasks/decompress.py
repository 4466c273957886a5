"""Restore buffers that a reference library compressed, and compare them with the originals."""

from overside.tasks.common import Parameter
from overside.tasks.compress import FORMATS
from overside.tasks.offload import OffloadTask

TASK = OffloadTask(
    name="decompress",
    description="restore compressed buffers; each output is compared with the original",
    operation=lambda parameters: f"decompress-{parameters['format']}",
    own={
        "format": Parameter(
            "string", "the format of the compressed side", "deflate", choices=FORMATS
        ),
    },
    compression=True,
)
