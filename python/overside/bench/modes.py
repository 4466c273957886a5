"""Path of traffic through a BlueField: off the path, or on it in one of five submodes.

The evidence is read where there is some: PCI devices, `devlink`, `mlxconfig` (or `mstconfig`) and
the database of Open vSwitch. Programs only query the card; modes.md documents how each mode is set.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overside import processes, strict_json
from overside.bench.diagnostics import Finding

#: Mellanox' PCI devices that are a BlueField's network part, by their number.
_CARDS = {
    "0xa2d2": "BlueField",
    "0xa2d3": "BlueField",
    "0xa2d6": "BlueField-2",
    "0xa2dc": "BlueField-3",
}
_VENDOR = "0x15b3"
_PCI = Path("/sys/bus/pci/devices")
#: Longest time that a program may take to answer, in seconds.
_ANSWER_S = 5.0

#: Names of the modes as the literature on BlueField counts them: SM1 to SM5.
OFF_PATH = "off-path"
OVS_KERNEL = "on-path 1 (SM1): Open vSwitch, kernel datapath on the Arm cores"
OVS_DPDK = "on-path 2 (SM2): Open vSwitch, DPDK datapath on the Arm cores"
DPDK = "on-path 3 (SM3): a DPDK program on the Arm cores"
OVS_KERNEL_OFFLOAD = (
    "on-path 4 (SM4): Open vSwitch, kernel datapath offloaded to the embedded switch"
)
OVS_DPDK_OFFLOAD = "on-path 5 (SM5): Open vSwitch, DPDK datapath offloaded to the embedded switch"
#: Modes by the values of `overside run --card-mode`.
BY_NAME = {
    "off-path": OFF_PATH,
    "on-path-1": OVS_KERNEL,
    "on-path-2": OVS_DPDK,
    "on-path-3": DPDK,
    "on-path-4": OVS_KERNEL_OFFLOAD,
    "on-path-5": OVS_DPDK_OFFLOAD,
}


@dataclass(frozen=True)
class Card:
    """A network function of a BlueField, as this side of it sees it."""

    #: PCI address, such as `0000:03:00.0`.
    address: str
    model: str
    #: `switchdev`, `legacy`; `None` where it cannot be read.
    eswitch: str | None = None
    #: Firmware settings by name: `INTERNAL_CPU_MODEL`, `INTERNAL_CPU_OFFLOAD_ENGINE`; empty if
    #: they cannot be read.
    firmware: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Switch:
    """Open vSwitch, as its database describes it."""

    #: `other_config` of the whole.
    config: dict[str, str]
    #: The bridges' datapath types: `system` (also for an empty one) or `netdev`.
    datapaths: tuple[str, ...]


@dataclass(frozen=True)
class Hardware:
    """Evidence of the mode."""

    cards: tuple[Card, ...] = ()
    #: `None`: it does not run here.
    switch: Switch | None = None
    #: A DPDK program runs that is not Open vSwitch.
    dpdk: bool = False
    #: This is the card's own system, not the host's.
    on_card: bool = False


def of_modes() -> list[Finding]:
    """Returns the findings for `overside doctor` about the modes of this machine's cards."""
    return list(findings(look()))


def card_mode(seen: Hardware) -> str | None:
    """The modes of the cards, each once, as samples have them; `None` without a card."""
    found = dict.fromkeys(mode_of(card, seen)[0] for card in seen.cards)
    return " and ".join(found) or None


def findings(seen: Hardware) -> Iterator[Finding]:
    """Yields a finding about the network mode of each card."""
    if not seen.cards:
        there = "Open vSwitch" if seen.switch else "no Open vSwitch"
        yield Finding("mode", "note", f"network mode: no BlueField, {there}")
        return
    for card in seen.cards:
        mode, remedy = mode_of(card, seen)
        where = f"{card.model} at {card.address}"
        yield Finding("mode", "note", f"network mode: {where} is {mode}", remedy)


def mode_of(card: Card, seen: Hardware) -> tuple[str, str]:
    """The mode of a card, and advice where it is unknown or only half set."""
    model = card.firmware.get("INTERNAL_CPU_MODEL", "")
    engine = card.firmware.get("INTERNAL_CPU_OFFLOAD_ENGINE", "")
    if engine.startswith("DISABLED"):
        return f"{OFF_PATH} (NIC mode: the Arm cores have no part in the traffic)", ""
    if model.startswith("SEPERATED_HOST"):
        return f"{OFF_PATH} (separated hosts: either side has its own functions)", ""
    if not seen.on_card:
        known = "on-path (DPU mode)" if model.startswith("EMBEDDED_CPU") else "not known"
        return f"{known}; the submode can be seen on the card only", "run it on the card as well"
    switch = seen.switch
    if switch is None or not switch.datapaths:
        if seen.dpdk:
            return DPDK, ""
        return (
            "on-path without anything that forwards",
            "docs/measure/modes.md says how to set a mode up",
        )
    offloaded = switch.config.get("hw-offload") == "true"
    user = switch.config.get("dpdk-init") in ("true", "try") and "netdev" in switch.datapaths
    if offloaded and card.eswitch not in (None, "switchdev"):
        return (
            f"{OVS_DPDK if user else OVS_KERNEL}; hw-offload is set, but the embedded switch is in "
            f"mode {card.eswitch}",
            f"devlink dev eswitch set pci/{card.address} mode switchdev",
        )
    if user:
        return (OVS_DPDK_OFFLOAD if offloaded else OVS_DPDK), ""
    return (OVS_KERNEL_OFFLOAD if offloaded else OVS_KERNEL), ""


def look() -> Hardware:
    """Reads the system's description of the hardware."""
    addresses = list(_bluefields(_PCI))
    cards = tuple(
        Card(address, model, _eswitch(address), _firmware(address)) for address, model in addresses
    )
    return Hardware(cards, _switch(), _dpdk_runs(Path("/var/run/dpdk")), bool(cards) and _is_card())


def _bluefields(devices: Path) -> Iterator[tuple[str, str]]:
    """Address and model of each; the first functions only, virtual ones follow them."""
    for device in sorted(devices.glob("*")):
        try:
            vendor = (device / "vendor").read_text().strip()
            number = (device / "device").read_text().strip()
        except OSError:
            continue
        if vendor == _VENDOR and number in _CARDS and not (device / "physfn").exists():
            yield device.name, _CARDS[number]


def _is_card() -> bool:
    """Returns `True` if this system runs on a card's own cores."""
    for path in ("/sys/class/dmi/id/product_name", "/proc/device-tree/model"):
        try:
            if "bluefield" in Path(path).read_text(errors="replace").lower():
                return True
        except OSError:
            continue
    return False


def _dpdk_runs(folder: Path) -> bool:
    """DPDK programs keep a socket in a folder of their own. Open vSwitch's is not asked about."""
    return any(folder.glob("*/mp_socket"))


def _eswitch(address: str) -> str | None:
    said = _ask(["devlink", "-j", "dev", "eswitch", "show", f"pci/{address}"])
    return None if said is None else parse_eswitch(said)


def parse_eswitch(said: str) -> str | None:
    """Parses the mode from the output of `devlink -j dev eswitch show`."""
    try:
        devices = strict_json.loads(said)["dev"]
        (device,) = devices.values()
        mode = device["mode"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return mode if isinstance(mode, str) else None


def _firmware(address: str) -> dict[str, str]:
    names = ("INTERNAL_CPU_MODEL", "INTERNAL_CPU_OFFLOAD_ENGINE")
    for program in ("mlxconfig", "mstconfig"):
        said = _ask([program, "-d", address, "query", *names])
        if said is not None:
            found = parse_firmware(said)
            return {name: found[name] for name in names if name in found}
    return {}


def parse_firmware(said: str) -> dict[str, str]:
    """Parses the parameters from the output of `mlxconfig query`: `NAME  VALUE(number)` a line."""
    found = {}
    for line in said.splitlines():
        match = re.fullmatch(r"\s*\*?\s*([A-Z][A-Z0-9_]+)\s+(\S+)\s*", line)
        if match:
            found[match[1]] = match[2]
    return found


def _switch() -> Switch | None:
    if not Path("/var/run/openvswitch/db.sock").exists():
        return None
    ask = ["ovs-vsctl", "--no-wait", "--timeout=2", "--format=json"]
    config = _ask([*ask, "--columns=other_config", "list", "Open_vSwitch"])
    bridges = _ask([*ask, "--columns=datapath_type", "list", "Bridge"])
    if config is None or bridges is None:
        return None
    return parse_switch(config, bridges)


def parse_switch(config: str, bridges: str) -> Switch | None:
    """Parses the output of `ovs-vsctl --format=json list` for both tables; `None` if malformed."""
    try:
        rows = strict_json.loads(config)["data"]
        pairs: list[Any] = rows[0][0][1] if rows else []
        types = [row[0] for row in strict_json.loads(bridges)["data"]]
        return Switch({str(k): str(v) for k, v in pairs}, tuple(str(t) or "system" for t in types))
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _ask(command: Sequence[str]) -> str | None:
    """Runs a program and returns its output; `None` if there is no such program, or it fails."""
    program = shutil.which(command[0], path="/usr/bin:/bin:/usr/sbin:/sbin:/opt/mellanox/bin")
    if program is None:
        return None
    with contextlib.suppress(processes.ProcessError):
        return processes.output([program, *command[1:]], _ANSWER_S).decode(errors="replace")
    return None
