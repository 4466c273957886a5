"""The native code: devices, the measuring loop, boxes, profiles. Texts are JSON where said."""

from typing import final

class BoxError(ValueError):
    """A box that is not valid; its text is a JSON list of {pointer, message, suggestion}."""

@final
class Worker:
    """Measures tests and keeps what the next one can use again. One process, one worker."""

    def __new__(cls) -> Worker: ...
    def measure(self, test_json: str) -> str:
        """Takes one sample (docs/results.md) of a test; both are JSON.

        Whatever goes wrong while measuring is in the sample. Raises `ValueError` if `test_json` is
        no test. Other threads run meanwhile.
        """

def version() -> str:
    """The version of Overside."""

def parse_box(text: str) -> str:
    """A box in its parsed form, as JSON: axes as lists, defaults filled in. Raises `BoxError`."""

def box_schema() -> str:
    """The JSON Schema of boxes."""

def suggest(word: str, known: list[str]) -> str | None:
    """The one of `known` that `word` may have been meant to be."""

def pattern_problem(patterns: list[str]) -> str | None:
    """Why the patterns cannot be searched for together, naming the one to blame; `None` if they
    can. All engines take the same ones. Other threads run meanwhile."""

def devices_dpdk() -> str:
    """The devices that DPDK drives, as `devices` lists the others. Starts DPDK, once a process,
    which takes a quarter of a second; without it, one entry `dpdk:*` says what is missing."""

def devices() -> str:
    """All devices, as a JSON list of {name, unavailable, driver, location, description,
    provenance, timing, capabilities}.

    `unavailable` is null or why the device cannot be used here; then it has only its name and no
    capabilities. A capability is {operation, variants, max_source_bytes, max_destination_bytes,
    max_segments, max_depth, event, memory, missing}.
    """

def variants() -> str:
    """All operations, as a JSON list of {operation, variants}.

    A variant is {name, library, version, simd, levels, default_level}; `levels` is null or the
    lowest and the highest. The first is what `auto` takes.
    """

def profiles() -> str:
    """All profiles of emulated devices, as a JSON list. Raises `ValueError` if one of the user's
    is not right."""

def outlook(
    profile: str,
    operation: str,
    setting: str,
    cpu_rate_bytes_per_s: float,
    ratio: float,
    patterns: list[str],
) -> str:
    """What a profile's device would change against a measured CPU, as JSON:
    `device_rate_bytes_per_s`, `speedup` and whether its `high` is `bounded`, `break_even`, what is
    missing, and the facts it rests on.

    The rate is of bytes of the uncompressed side, `ratio` compressed by uncompressed bytes, 1 for
    matching; `setting` is "static" or "reconfiguration". Raises `ValueError` for what the profile
    cannot do.
    """

def merge_histograms(histograms: list[str]) -> str:
    """Several samples' latencies together, as JSON: {count, mean_ns, min_ns, p50_ns, p90_ns,
    p99_ns, p999_ns, max_ns, curve, histogram}; `curve` is a list of (quantile, nanoseconds).

    Raises `ValueError` if one is no histogram.
    """
