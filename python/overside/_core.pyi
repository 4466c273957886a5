"""The native code: devices, the measuring loop, boxes, profiles. Texts are JSON where said."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, final

from typing_extensions import Buffer

MAX_SIZE: int
"""The most bytes that decompression gives at once by default: 1 GiB."""

class Error(Exception):
    """Base class of the exceptions that Overside raises, other than built-in ones."""

class DataError(Error, ValueError):
    """The data are not what their format says they should be."""

    output: bytes
    """Output before the error: all that is whole."""

class TruncatedError(DataError, EOFError):
    """The data end in the middle."""

class LimitError(Error, ValueError):
    """The output would be longer than `max_size` allows."""

class PatternError(Error, ValueError):
    """A pattern that does not compile."""

class DeviceError(Error, RuntimeError):
    """A device that is not there, cannot do it, or was lost with nothing to replace it."""

@final
class Result:
    """Compressed or decompressed bytes, and where they were made.

    Bytes-like, without a copy: `memoryview(result)`, `file.write(result)`; `bytes(result)` copies.
    """

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def format(self) -> str:
        """`gzip`, `zlib`, `lz4` or `zstd`."""
    @property
    def applied(self) -> list[dict[str, Any]]:
        """Targets that actually ran: a dict for each target that did something.

        Its keys are `target`, `chunks`, `device`, `driver`, `variant`, `library` and
        `provenance`.
        """
    @property
    def report(self) -> dict[str, Any]:
        """Report of the call.

        Its keys are `format`, `bytes_in`, `bytes_out`, `members`, `stored`, `streamed`, `ignored`,
        `original`, and `executor`: the work of each target, or `None`.
        """

def compress(
    data: Buffer,
    *,
    format: Literal["gzip", "zlib", "lz4", "zstd"] = "gzip",  # noqa: A002
    level: int | None = None,
    placement: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    verify: Literal["all", "sampled", "none"] | None = None,
    chunk: int | Literal["auto"] | None = None,
    submitters: int | None = None,
    window: int | None = None,
) -> Result:
    """Compresses data in memory. Other Python threads run meanwhile.

    Args:
        data: Bytes-like and in one piece: `bytes`, `bytearray`, `memoryview`, `mmap`, `array`, a
            numpy array. Read where it is if it cannot change, otherwise copied chunk by chunk.
        format: `gzip`, `zlib`, `lz4` or `zstd`.
        level: Compression level in the library's own numbers. Default: the library's.
        placement: Targets: `cpu`, `device`, `split:PERCENT` (of the bytes, to the device) or
            `adaptive`. Default: `cpu`, or `adaptive` if there is a `device`.
        device: A device as `overside devices` names it: `emulated:bf2`, `dpu0/cpu`; `A+B`: both.
        threads: CPU threads. Default: one per core, but no more than the data have work for.
        verify: Which results of the device the CPU verifies before they count: `all`, `sampled`
            (one in 16) or `none`. Default: all.
        chunk: Bytes of input that are compressed by themselves. Default: 1 MiB (1,048,576), less
            for short inputs. `auto`: adaptive placement finds out which length is fastest.
        submitters: Threads that submit to devices, for devices that one thread does not keep busy.
            Default: 1.
        window: Bytes of input in flight at most. Default: by the targets' depths.

    Returns:
        The compressed bytes, bytes-like, and where they were made.

    Raises:
        ValueError: An argument that cannot be.
        TypeError: An argument of another type.
        BufferError: The data are not in one piece.
        DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
    """

def decompress(
    data: Buffer,
    *,
    format: Literal["gzip", "zlib", "lz4", "zstd"] | None = None,  # noqa: A002
    max_size: int | None = ...,
    placement: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    verify: Literal["all", "sampled", "none"] | None = None,
    submitters: int | None = None,
    window: int | None = None,
) -> Result:
    """Decompresses data in memory. Other Python threads run meanwhile.

    Args:
        data: Bytes-like and in one piece: `bytes`, `bytearray`, `memoryview`, `mmap`, `array`, a
            numpy array. Read where it is if it cannot change, otherwise copied chunk by chunk.
        format: `gzip`, `zlib`, `lz4` or `zstd`. Default: it is detected.
        max_size: The most bytes that may come out, since a short input can become a very long
            output; `None`: any number. Default: 1 GiB.
        placement: Targets: `cpu`, `device`, `split:PERCENT` (of the bytes, to the device) or
            `adaptive`. Default: `cpu`, or `adaptive` if there is a `device`.
        device: A device as `overside devices` names it: `emulated:bf2`, `dpu0/cpu`; `A+B`: both.
        threads: CPU threads. Default: one per core, but no more than the data have work for.
        verify: Which results of the device the CPU verifies before they count: `all`, `sampled`
            (one in 16) or `none`. Default: all.
        submitters: Threads that submit to devices, for devices that one thread does not keep busy.
            Default: 1.
        window: Bytes of input in flight at most. Default: by the targets' depths.

    Returns:
        The plain bytes, bytes-like, and where they were made.

    Raises:
        DataError: The data are not what their format says; `output` of the error has what is whole.
        TruncatedError: They end in the middle; a `DataError`.
        LimitError: The output would be longer than `max_size`.
        ValueError: An argument that cannot be.
        TypeError: An argument of another type.
        BufferError: The data are not in one piece.
        DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
    """

@final
class Call:
    """A call that goes on in another thread."""

    def cancel(self) -> None:
        """Ends it before its next chunk is written."""

def start_compress(data: Buffer, done: Callable[..., object], **options: Any) -> Call:
    """Begins what `compress` does; `done(result, error)` is called when it is over."""

def start_decompress(data: Buffer, done: Callable[..., object], **options: Any) -> Call:
    """Begins what `decompress` does; `done(result, error)` is called when it is over."""

@final
class Matches:
    """The records that are selected, and where they were found."""

    def __len__(self) -> int: ...
    @property
    def count(self) -> int:
        """Number of selected records; at most 1 with `answer="any"`."""
    @property
    def indices(self) -> memoryview | None:
        """Their numbers in the data, from 0, ascending: unsigned 64-bit numbers (format `Q`), one a
        selected record; `None` unless `answer` is `records`.
        """
    @property
    def begins(self) -> memoryview | None:
        """Offsets in the text at which the selected records begin, in bytes.

        They have the shape of `indices`. `None` where `indices` is `None`, and for Arrow data.
        """
    @property
    def ends(self) -> memoryview | None:
        """Offsets in the text at which the selected records end, in bytes, without the line feed.

        Otherwise as `begins`.
        """
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Returns the selection of rows of Arrow data: an Arrow array of booleans, one for each
        row, which filters them. Raises `ValueError` for text, and unless `answer` is `records`.
        """
    @property
    def applied(self) -> list[dict[str, Any]]:
        """Targets that actually ran, as `Result.applied`; empty if there was nothing to search."""
    @property
    def report(self) -> dict[str, Any]:
        """Report of the search.

        Its keys are `selected`, `long` and `without_value`: the numbers of selected records, of
        records that were searched by themselves, and of rows without a value; `tried_engine`: the
        fastest engine if engines were tried; `because`: the engine that `auto` chose by the
        patterns, and the reason; and `executor`: the work of each target.
        """

def match(
    data: object,
    patterns: str | list[str],
    *,
    column: str | None = None,
    answer: Literal["records", "count", "any"] = "records",
    ignore_case: bool = False,
    invert: bool = False,
    engine: str = "auto",
    placement: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    verify: Literal["all", "sampled", "none"] | None = None,
    chunk: int | None = None,
) -> Matches:
    """Finds the records in which a pattern matches. Other Python threads run meanwhile.

    Args:
        data: Text in memory, bytes-like and in one piece, whose lines are the records; or an
            array, chunked array or table with Arrow data (`__arrow_c_array__`,
            `__arrow_c_stream__`), whose values are the records.
        patterns: A regular expression or several, in the syntax that the engines share. They see
            bytes; `^` and `$` are the ends of a record.
        column: Of a table: the column to search.
        answer: `records`: the matching records; `count`: their number; `any`: `True` if there is
            one.
        ignore_case: Letters match in both cases.
        invert: Selects the records in which no pattern matches.
        engine: Engine that searches on the CPU: `auto`, `literal`, `hyperscan`, `regex` or `re2`.
        placement: Targets: `cpu`, `device`, `split:PERCENT` (of the bytes, to the device) or
            `adaptive`. Default: `cpu`, or `adaptive` if there is a `device`.
        device: A device as `overside devices` names it: `emulated:bf2`, `dpu0/cpu`; `A+B`: both.
        threads: CPU threads. Default: one per core, but no more than the data have work for.
        verify: Which results of the device the CPU verifies before they count: `all`, `sampled`
            (one in 16) or `none`. Default: sampled.
        chunk: Bytes that are searched at once. Default: 256 KiB (262,144).

    Returns:
        The records that are selected, and where they were found.

    Raises:
        PatternError: A pattern does not compile.
        DataError: The Arrow data are damaged.
        ValueError: An argument that cannot be.
        TypeError: An argument of another type.
        BufferError: The data are not in one piece.
        DeviceError: The device is not there, cannot do it, or was lost with no CPU to replace it.
    """

@final
class Compressor:
    """Compresses a stream piece by piece. Other Python threads run meanwhile.

    Several threads may use one; each call takes its turn. After an error it cannot be continued.

    Args:
        format: `gzip`, `zlib`, `lz4` or `zstd`.
        level: Compression level in the library's own numbers. Default: the library's.
        placement: Targets: `cpu`, `device`, `split:PERCENT` (of the bytes, to the device) or
            `adaptive`. Default: `cpu`, or `adaptive` if there is a `device`.
        device: A device as `overside devices` names it: `emulated:bf2`, `dpu0/cpu`; `A+B`: both.
        threads: CPU threads. Default: one per core, but no more than the data have work for.
        verify: Which results of the device the CPU verifies before they count: `all`, `sampled`
            (one in 16) or `none`. Default: all.
        chunk: Bytes of input that are compressed by themselves. Default: 1 MiB (1,048,576).
            `auto`: adaptive placement finds out which length is fastest.

    Raises:
        ValueError: An argument that cannot be.
        DeviceError: The device is not there, or cannot do it.
    """

    def __new__(
        cls,
        *,
        format: Literal["gzip", "zlib", "lz4", "zstd"] = "gzip",  # noqa: A002
        level: int | None = None,
        placement: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        verify: Literal["all", "sampled", "none"] | None = None,
        chunk: int | Literal["auto"] | None = None,
    ) -> Compressor: ...
    def compress(self, data: Buffer) -> bytes:
        """Takes a piece of the stream.

        Args:
            data: Bytes-like and in one piece; all of it is taken.

        Returns:
            What is compressed so far, which may be nothing.

        Raises:
            DeviceError: The device was lost with no CPU to replace it.
            ValueError: The stream is finished, or has failed.
        """
    def flush(self) -> bytes:
        """Gives all that can be made of the pieces so far.

        Returns:
            The bytes. Of a compressor they end a chunk: a reader can decompress all of them.
        """
    def finish(self) -> bytes:
        """Ends the stream.

        Returns:
            What is left of it.

        Raises:
            TruncatedError: Of a decompressor: the stream is not over.
        """
    @property
    def applied(self) -> list[dict[str, Any]] | None:
        """Targets that actually ran, as `Result.applied`; `None` before the stream is finished."""
    @property
    def report(self) -> dict[str, Any] | None:
        """Report of the stream, as `Result.report`; `None` before the stream is finished."""

@final
class Decompressor:
    """Decompresses a stream piece by piece. Other Python threads run meanwhile.

    Several threads may use one; each call takes its turn. After an error it cannot be continued.

    Args:
        format: `gzip`, `zlib`, `lz4` or `zstd`. Default: it is detected.
        max_size: The most bytes that one call may give; `None`: any number. Default: 1 GiB.
        placement: Targets: `cpu`, `device`, `split:PERCENT` (of the bytes, to the device) or
            `adaptive`. Default: `cpu`, or `adaptive` if there is a `device`.
        device: A device as `overside devices` names it: `emulated:bf2`, `dpu0/cpu`; `A+B`: both.
        threads: CPU threads. Default: one per core, but no more than the data have work for.
        verify: Which results of the device the CPU verifies before they count: `all`, `sampled`
            (one in 16) or `none`. Default: all.

    Raises:
        ValueError: An argument that cannot be.
        DeviceError: The device is not there, or cannot do it.
    """

    def __new__(
        cls,
        *,
        format: Literal["gzip", "zlib", "lz4", "zstd"] | None = None,  # noqa: A002
        max_size: int | None = ...,
        placement: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        verify: Literal["all", "sampled", "none"] | None = None,
    ) -> Decompressor: ...
    def decompress(self, data: Buffer) -> bytes:
        """Takes a piece of the stream.

        Args:
            data: Bytes-like and in one piece; all of it is taken.

        Returns:
            What is decompressed so far, which may be nothing.

        Raises:
            DataError: The data are not what their format says; `output` of the error has what this
                call would have given.
            LimitError: More than `max_size` bytes would be given.
            ValueError: The stream is finished, or has failed.
        """
    def flush(self) -> bytes:
        """Gives all that can be made of the pieces so far.

        Returns:
            The bytes. Of a compressor they end a chunk: a reader can decompress all of them.
        """
    def finish(self) -> bytes:
        """Ends the stream.

        Returns:
            What is left of it.

        Raises:
            TruncatedError: Of a decompressor: the stream is not over.
        """
    @property
    def applied(self) -> list[dict[str, Any]] | None:
        """Targets that actually ran, as `Result.applied`; `None` before the stream is finished."""
    @property
    def report(self) -> dict[str, Any] | None:
        """Report of the stream, as `Result.report`; `None` before the stream is finished."""

class BoxError(ValueError):
    """A box that is not valid; its text is a JSON list of {pointer, line, column, message,
    suggestion}."""

@final
class AgentProbe:
    """An agent that plays one end of a test. It ends there when this is closed or goes."""

    def __new__(cls, node: str, address: str, keys: Path | None, kind: str) -> AgentProbe:
        """Makes the agent `node` at that address, with the keys of that directory, play an end of
        that kind of test. Raises `ConnectionError`."""

    def ask(self, question: str, timeout_s: float) -> str:
        """Asks and waits for the answer, so many seconds at most; both are JSON. Raises
        `ConnectionError`. Other threads run meanwhile."""

    def address(self) -> str:
        """The address that the agent was reached at."""

    def close(self) -> None:
        """Ends the agent's end."""

class Worker:
    """Measures tests and keeps what the next one can use again. One process, one worker."""

    def __new__(cls) -> Worker: ...
    def measure(self, test_json: str) -> str:
        """Takes one sample (docs/measure/results.md) of a test; both are JSON.

        Whatever goes wrong while measuring is in the sample. Raises `ValueError` if `test_json` is
        no test. Other threads run meanwhile.
        """

def start_log(level: str, file: Path | None = None) -> str:
    """Starts the log of this process at `level`, unless `OVERSIDE_LOG` says another. The level of
    Python's own events. Raises `ValueError` if one of them is not valid."""

def log_event(level: int, logger: str, message: str) -> None:
    """Logs an event, with its level as `logging` numbers it."""

def version() -> str:
    """The version of Overside."""

def commit() -> str:
    """The commit that it was built from, `-dirty` behind it if files differed; empty if unknown."""

def command_line(words: Sequence[str]) -> tuple[str, str]:
    """Reads the words behind `overside`: the verb, empty if there is none, and JSON, an object with
    one key: `values` (of the options, by name), `help`, `incomplete` or `wrong`."""

def parse_box(text: str) -> str:
    """A box in its parsed form, as JSON: axes as lists, defaults filled in. Raises `BoxError`."""

def audit(scratch: str) -> str:
    """Plants each known measuring mistake in a real test and reports whether it was caught.

    Uses a file in the directory `scratch`. Returns JSON (docs/measure/audit.md). Raises `OSError`.
    """

def box_schema() -> str:
    """The JSON Schema of boxes."""

def number(value: float, digits: int = 3) -> str:
    """A number with significant digits: `0.0412`, `4.80`, `1,240`."""

def size(size_bytes: float) -> str:
    """Bytes in binary units: `64 KiB`, `1.50 GiB`; exact where they are few: `16,383 B`."""

def duration(seconds: float) -> str:
    """Seconds: `850 ms`, `12 s`, `2 min 5 s`."""

def suggest(word: str, known: list[str]) -> str | None:
    """The one of `known` that `word` may have been meant to be."""

def pattern_problem(patterns: list[str]) -> str | None:
    """Returns the reason why the patterns cannot be searched for together; `None` if they can.

    It names the pattern to blame. All engines take the same patterns. Other threads run
    meanwhile.
    """

def test_problem(test_json: str) -> str | None:
    """Returns the reason why a test for `Worker.measure` is invalid; `None` if it is valid.

    The reason is a value out of its bounds, or values that conflict.
    """

def node_environment(node: str) -> str:
    """Describes a machine, this one (`local`) or an agent's, as a run has it (results.md).

    Returns JSON. Raises `ValueError` if the agent cannot be asked. Other threads run meanwhile.
    """

def tasks() -> str:
    """Returns the specifications of the built-in tasks, as a JSON list.

    Each has {name, description, operation, verified, parameters, metrics, report};
    crates/measure/measure/src/tasks/spec.rs describes these.
    """

def backends() -> str:
    """The backends, as a JSON list of {prefix, wildcard, cost}: what their devices' names begin
    with, the name that stands for all of them where it is not known which there are, and what
    listing them starts or asks, or null."""

def doctor() -> str:
    """Returns the findings of all backends on this machine, as a JSON list of {level, message}.

    The level is `ok`, `note` or `lack`.
    """

def perftest_command(test: str, port: int) -> list[str]:
    """The command that both ends of a test of perftest's are started by; the client's has the
    server's address behind it. `test` is JSON: {operation, metric, transport, device,
    message_size, iterations, depth, queue_pairs, event, inline}. Raises `ValueError`."""

def rdma_devices() -> str:
    """The RDMA devices of this machine, as a JSON list of {name, software_over}: the network
    interface that one sends over in software, or null."""

def devices(backend: str) -> str:
    """The devices of the backend with that prefix, as a JSON list of {name, unavailable, driver,
    location, description, provenance, timing, capabilities}. Raises `ValueError`.

    `unavailable` is null or why the device cannot be used here; then it has only its name and no
    capabilities. A capability is {operation, variants, max_source_bytes, max_destination_bytes,
    max_segments, max_depth, event, memory, missing}.
    """

def variants() -> str:
    """All operations, as a JSON list of {operation, variants}.

    A variant is {name, label, library, version, simd, levels, default_level}; `label` is for
    tables and charts, `levels` is null or the lowest and the highest. The first is what `auto`
    takes.
    """

def profiles() -> str:
    """All profiles of emulated devices, as a JSON list. Raises `ValueError` if one of the user's
    is not right."""

def scenarios() -> str:
    """All scenarios with their keys, and the presets, as JSON. Raises `ValueError`."""

def simulate(
    name: str,
    text: str | None,
    settings: list[tuple[str, str]],
    profile: tuple[str, str | None] | None,
    measured: tuple[str, str] | None = None,
) -> str:
    """The report of a scenario as JSON, from the file `text` called `name`, or else from the
    preset or scenario `name`. `profile` is a name, or a file's name and text; `measured` is the
    profile of a machine that a run measured. Raises `ValueError`."""

def facts(
    words: list[str],
    paper: str | None = None,
    device: str | None = None,
    purpose: str | None = None,
    file: str | None = None,
) -> str:
    """Published facts and orderings that hold all words, as JSON: `facts`, `orderings`, `notes`,
    `ids`. Of `file`, or those that are built in. Raises `ValueError`.
    """

def facts_ask(name: str, file: str | None = None) -> str:
    """Returns the commands that show the model's answer about a fact or an ordering, as JSON.

    Of a fact: `figures`, each with `name`, `published`, `unit`, `not_modelled` and `commands` of
    `what`, `figure` and `command`. Of an ordering: `statement`, `not_modelled` and `relations`.
    Raises `ValueError`.
    """

def facts_without(name: str) -> float | None:
    """Returns the prediction of a figure as if it had never been published, divided by the figure;
    `None` if there is none. `name` is the figure's, as `facts_check` has it.
    """

def facts_check(file: str | None = None) -> str:
    """Every published figure and ordering beside what the model predicts, as JSON: `figures`,
    `orderings`, `validation`, `calibration`, `ordering_scores`. Raises `ValueError`.
    """

def advise(
    question: str,
    profiles: list[str],
    files: list[tuple[str, str]],
    workload: tuple[str, str] | None,
) -> str:
    """Recommends a place for each operation on each device, and for a workload, as JSON.

    docs/measure/advise.md describes the form.

    `question` is JSON of what was measured; `profiles` are names, `files` further profiles and
    `workload` a workload, each with what it is called and its text. Raises `ValueError`.
    """

def published_question(cores: int) -> str:
    """Builds a question for `advise` from published figures of a host with `cores` cores.

    It is JSON.
    """

def workload(file: str, text: str) -> str:
    """A workload in its parsed form, as JSON. Raises `ValueError` that names the key."""

def placement(text: str) -> str:
    """The one way to write a placement: a split that gives everything to one side is that side.
    Raises `ValueError`."""

def placement_file(rules: str) -> str:
    """A placement file (docs/measure/advise.md) of rules, which are JSON. Raises `ValueError`."""

def merge_histograms(histograms: list[str]) -> str:
    """Several samples' latencies together, as JSON: {count, mean_ns, min_ns, p50_ns, p90_ns,
    p99_ns, p999_ns, max_ns, curve, histogram}; `curve` is a list of (quantile, nanoseconds).

    Raises `ValueError` if one is no histogram.
    """

def profile_show(name: str) -> str:
    """JSON: `profile` as its file has it, `values`, one entry each of `key`, `low`, `value`,
    `high` (or `by`, `at`, `value`), `unit`, `facts`, `citation`, `note`; what is `missing`: `key`,
    `about`, `measured_by`; and `why_not_emulated`. A name that ends in `.toml` is a file's path.
    Raises `ValueError`."""

def profile_check(path: str) -> str:
    """All that is wrong with a profile's file; of one that may be shared, also whether its values
    are a real device's. JSON: `file`, `name`, `valid`, and `problems`: `key`, `problem` and
    `remedy` each."""

def profile_toml(form: str) -> str:
    """A profile as the text of its file, from its JSON form. Raises `ValueError` with all that is
    wrong with it."""

def parameters() -> str:
    """JSON: the parameters that profiles may give: `name`, `dimensions`, `by`, `about`,
    `measured_by`, the step of `overside calibrate`, and what gives it `otherwise`."""

def memory_latency(block_bytes: int, seconds: float) -> float:
    """Nanoseconds of a dependent read at random from a block, measured for about `seconds`. Raises
    `ValueError`."""

def memory_stream(kernel: str, threads: int, array_bytes: int, seconds: float) -> float:
    """Bytes a second of a STREAM kernel, `copy`, `scale`, `add` or `triad`, whose threads share
    arrays of `array_bytes`, measured for about `seconds`. Raises `ValueError`."""

def kv_info(address: str, password: bytes | None, timeout_s: float) -> str:
    """A server's reply to `INFO`. Raises `OSError`; `PermissionError` if it refuses."""
