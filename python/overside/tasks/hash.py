"""Hash buffers, and compare the digests with another implementation's."""

from overside.tasks.common import Parameter
from overside.tasks.offload import OffloadTask

TASK = OffloadTask(
    name="hash",
    description="hash buffers; each digest is compared with another implementation's",
    operation=lambda parameters: f"hash-{parameters['algorithm']}",
    own={
        "algorithm": Parameter(
            "string", "the hash or checksum", "xxh3", choices=("xxh3", "crc32", "sha256")
        ),
    },
)
