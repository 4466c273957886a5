"""Compress buffers and check that they can be restored."""

from overside.tasks.common import Parameter
from overside.tasks.offload import OffloadTask

FORMATS = ("deflate", "zlib", "gzip", "lz4-block", "lz4", "zstd")

TASK = OffloadTask(
    name="compress",
    description="compress buffers; each output is restored and compared",
    operation=lambda parameters: f"compress-{parameters['format']}",
    own={
        "format": Parameter(
            "string", "the format of the compressed side", "deflate", choices=FORMATS
        ),
        "level": Parameter(
            "integer", "compression level; without one the library's own", None, "", (), 0, 22
        ),
    },
    compression=True,
)
