"""Find patterns in records, and check the answer record by record by plain regular expressions."""

from overside.tasks.common import Parameter
from overside.tasks.offload import QUERIES, OffloadTask, data

TASK = OffloadTask(
    name="match",
    description="find patterns in lines; plain regular expressions check each answer",
    operation=lambda parameters: f"match-{parameters['kind']}",
    own={
        "kind": Parameter(
            "string",
            "the first matching line, how many lines match, or one bit a line",
            "count",
            choices=("search", "count", "bitmap"),
        ),
        "patterns": Parameter(
            "strings",
            "regular expressions, or the published queries q1 to q4; a list is one value",
            list(QUERIES),
            most_values=1000,
        ),
        "data": data("accidents"),
    },
)
