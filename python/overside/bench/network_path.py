"""Forwarding hops between two network namespaces of this machine.

A worker that measures through a hop is started by `prefix()`: in network, mount and process
namespaces of its own (and a user namespace, unless it is root's), where it may make interfaces
without the rest of the system seeing any of them. In there `build` makes two further namespaces,
the ends, and the hop between them:

    client namespace        the worker's namespace          server namespace
      192.0.2.1  ----veth----  what forwards  ----veth----  192.0.2.2

With virtio-user the ends have the program's own interfaces (tap, by the kernel's vhost) in place of
veth pairs.

Nothing is put back afterwards because nothing was changed: the kernel takes namespaces away, and
ends all processes in them, when the worker ends, however that comes about.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from overside.processes import PIPE, STDOUT, Limits, Process, ProcessError, cited, output, run
from overside.tasks.common import Json

#: Description of each mode, as it appears in a sample's `applied`.
MODES = {
    "direct": "a veth pair between two namespaces",
    "bridge": "veth pairs and the kernel's bridge between two namespaces",
    "ovs-kernel": "veth pairs and Open vSwitch's kernel datapath between two namespaces",
    "ovs-userspace": "veth pairs and Open vSwitch's userspace datapath between two namespaces",
    "ovs-dpdk": "virtio-user and Open vSwitch with DPDK between two namespaces",
    "dpdk-af_packet": "veth pairs and DPDK's testpmd over af_packet between two namespaces",
    "dpdk-virtio_user": "virtio-user and DPDK's testpmd between two namespaces",
}
#: Modes whose program brings the interfaces of both ends with it.
_VIRTIO = ("ovs-dpdk", "dpdk-virtio_user")
#: Modes whose cores poll, as many as are asked for.
_POLLING = ("dpdk-af_packet", *_VIRTIO)
#: Modes where a program forwards, not the kernel: its CPU time is the hop's.
BY_PROGRAM = ("ovs-userspace", *_POLLING)

#: Programs that a mode needs in addition to `unshare` and `ip`, with their Debian packages.
_PROGRAMS = {
    "direct": ("ip", "iproute2"),
    "bridge": ("ip", "iproute2"),
    "ovs-kernel": ("ovs-vswitchd", "openvswitch-switch"),
    "ovs-dpdk": ("ovs-vswitchd-dpdk", "openvswitch-switch-dpdk librte-net-virtio23"),
    "dpdk-virtio_user": ("dpdk-testpmd", "dpdk-dev librte-net-virtio23"),
    "ovs-userspace": ("ovs-vswitchd", "openvswitch-switch"),
    "dpdk-af_packet": ("dpdk-testpmd", "dpdk-dev librte-net-af-packet23"),
}
#: Addresses that RFC 5737 reserves for documentation; no host has them.
_CLIENT, _SERVER = "192.0.2.1", "192.0.2.2"
_OVS_SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
#: In a tmpfs of the worker's own.
_RUN = Path("/run/overside")
#: Longest time that a program may take to be ready, in seconds.
_READY_S = 30.0
#: Arguments of DPDK programs that make them independent of the machine's huge pages and PCI
#: devices.
_NO_HUGE = ("--no-huge", "--no-pci", "--no-telemetry")
_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17


def prefix() -> list[str]:
    """The command that a worker is started by, to be followed by the worker's own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [
        "unshare",
        *user,
        *("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
    ]


def forwarding_cores(mode: str | None, given: int | None) -> int | None:
    """Returns the number of cores that forward in a mode; `None` without such a setting."""
    return (given or 1) if mode in _POLLING else None


def unavailable(mode: str, cores: int | None = None) -> str | None:
    """Returns the reason why a mode is unavailable on this machine; `None` if it is available.

    `cores` is the number of forwarding cores.
    """
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2"), _PROGRAMS[mode]):
        if _find(program) is None:
            return f"{mode} needs {program}: apt-get install {package}"
    has_taps = mode == "ovs-userspace" or mode in _VIRTIO
    if has_taps and not Path("/dev/net/tun").exists():
        return f"{mode} needs /dev/net/tun: modprobe tun"
    if mode in _VIRTIO and not Path("/dev/vhost-net").exists():
        return f"{mode} needs /dev/vhost-net, which this kernel has not: modprobe vhost_net"
    if mode == "ovs-kernel" and not _has_module("openvswitch"):
        return f"{mode} needs the kernel's module openvswitch, which this kernel has not"
    most = len(os.sched_getaffinity(0))
    if cores is not None and cores > most:
        return f"forwarding_cores: {cores}, and this machine has {most}"
    return _namespaces()


def _has_module(name: str) -> bool:
    """Returns `True` if the kernel has a module, or can load it."""
    if Path("/sys/module", name).exists():
        return True
    modprobe = _find("modprobe")
    probe = [modprobe or "false", "--dry-run", "--quiet", name]
    return run(probe, Limits(_READY_S)).status == 0


def _find(program: str) -> str | None:
    path = os.environ.get("PATH", os.defpath)
    places = f"{path}:/usr/sbin:/sbin:/usr/lib/openvswitch-switch-dpdk"
    return shutil.which(program, path=places)


@functools.cache
def _namespaces() -> str | None:
    """Returns the reason why network namespaces cannot be created; `None` if they can."""
    probe = "mount -t tmpfs tmpfs /run && ip link add name o0 type veth peer name o1"
    failure = _failure_in_namespaces(probe)
    return failure and (
        f"network namespaces cannot be made ({failure}): run as root, or allow user namespaces "
        "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone)"
    )


def _failure_in_namespaces(probe: str) -> str | None:
    """Runs commands of the shell behind `prefix()`; returns why they failed, or `None`."""
    done = run([*prefix(), "sh", "-c", probe], Limits(_READY_S))
    return done.failure and (" ".join(done.stderr_tail.split())[-200:] or done.failure)


class Hop:
    """Network path between two ends, until it is closed.

    It can be built only in a worker that was started behind `prefix()`.
    """

    _count = 0

    def __init__(self, mode: str, cores: int | None = None) -> None:
        """`cores`: how many forward, of the modes that poll. Raises `ProcessError`."""
        if Hop._count == 0:
            _run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
            _RUN.mkdir()
        Hop._count += 1
        #: Interfaces that go away late must not have the next ones' names.
        self._number = Hop._count
        self.mode = mode
        self.cores = cores
        self._processes: list[Process] = []
        self._forwarding: list[int] = []
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def json(self) -> Json:
        """Returns the hop in the form that the network test takes."""
        client, server = self._namespaces
        return {
            "client_namespace": f"/run/netns/{client}",
            "server_namespace": f"/run/netns/{server}",
            "server_address": _SERVER,
            "description": self._description,
            "processes": self._forwarding,
        }

    def close(self) -> None:
        """Ends the forwarding program and removes the ends."""
        for process in reversed(self._processes):
            process.end()
        for name in self._namespaces:
            # Its interfaces go with it, and their peers.
            with contextlib.suppress(ProcessError):
                _run(["ip", "netns", "delete", name])

    @property
    def _description(self) -> str:
        """Describes the path between the ends in words."""
        if self.cores is None:
            return MODES[self.mode]
        plural = "" if self.cores == 1 else "s"
        return f"{MODES[self.mode]}, {self.cores} forwarding core{plural}"

    @property
    def _namespaces(self) -> tuple[str, str]:
        return f"client{self._number}", f"server{self._number}"

    def _build(self) -> None:
        number, (client, server) = self._number, self._namespaces
        ends, ports = (f"c{number}", f"s{number}"), (f"hc{number}", f"hs{number}")
        _run(["ip", "netns", "add", client])
        _run(["ip", "netns", "add", server])
        if self.mode in _VIRTIO:
            self._forward(ends)
        elif self.mode == "direct":
            _batch([f"link add name {ends[0]} type veth peer name {ends[1]}"])
        else:
            _batch(
                f"link add name {end} type veth peer name {port}"
                for end, port in zip(ends, ports, strict=True)
            )
        for end in ends:
            # What passes as bytes through a program must be whole packets with their checksums;
            # the same everywhere, so that modes differ in the hop alone.
            _no_offload(end)
        for end, namespace, address in zip(ends, (client, server), (_CLIENT, _SERVER), strict=True):
            _batch([f"link set dev {end} netns {namespace}"])
            _batch(
                [
                    f"address add {address}/30 dev {end}",
                    f"link set dev {end} up",
                    "link set dev lo up",
                ],
                namespace,
            )
        if self.mode != "direct" and self.mode not in _VIRTIO:
            _batch(f"link set dev {port} up" for port in ports)
            self._forward(ports)

    def _forward(self, ports: tuple[str, str]) -> None:
        forward: dict[str, Callable[[tuple[str, str]], None]] = {
            "bridge": self._bridge,
            "ovs-kernel": self._ovs,
            "ovs-userspace": self._ovs,
            "ovs-dpdk": self._ovs,
            "dpdk-af_packet": self._testpmd,
            "dpdk-virtio_user": self._testpmd,
        }
        forward[self.mode](ports)

    def _bridge(self, ports: tuple[str, str]) -> None:
        name = f"br{self._number}"
        _batch(
            [
                f"link add name {name} type bridge",
                *(f"link set dev {port} master {name}" for port in ports),
                f"link set dev {name} up",
            ]
        )

    def _ovs(self, ports: tuple[str, str]) -> None:
        folder = _RUN / f"ovs{self._number}"
        folder.mkdir()
        where = {name: str(folder) for name in ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR")}
        environment = os.environ | where
        database, remote = folder / "conf.db", f"unix:{folder}/db.sock"
        _run(["ovsdb-tool", "create", str(database), str(_OVS_SCHEMA)])
        self._start(
            ["ovsdb-server", str(database), f"--remote=p{remote}", f"--unixctl={folder}/db.ctl"],
            folder / "db.log",
            environment,
        )
        _wait_for(folder / "db.sock", self._processes[-1])
        vsctl = ["ovs-vsctl", f"--db={remote}", f"--timeout={_READY_S:.0f}"]
        _run([*vsctl, "--no-wait", "init"])
        in_kernel, by_dpdk = self.mode == "ovs-kernel", self.mode == "ovs-dpdk"
        if by_dpdk:
            _run([*vsctl, "--no-wait", "set", "Open_vSwitch", ".", *self._ovs_dpdk_settings()])
        switch = self._start(
            [
                "ovs-vswitchd-dpdk" if by_dpdk else "ovs-vswitchd",
                remote,
                *(() if in_kernel else ("--disable-system",)),
                f"--unixctl={folder}/switch.ctl",
            ],
            folder / "switch.log",
            environment,
        )
        if by_dpdk:
            _wait_for_text(folder / "switch.log", "DPDK Enabled - initialized", switch)
        name = f"br{self._number}"
        add = ["--", "set", "bridge", name, f"datapath_type={'system' if in_kernel else 'netdev'}"]
        for place, port in enumerate(ports):
            add += ["--", "add-port", name, port]
            if by_dpdk:
                device = self._virtio_user(place, port)
                add += ["--", "set", "Interface", port, "type=dpdk"]
                add += [f'options:dpdk-devargs="{device}"', f"options:n_rxq={self.cores}"]
        _run([*vsctl, "add-br", name, *add])
        if by_dpdk:
            failed = [*vsctl, "--bare", "--columns=error", "find", "Interface", "error!=[]"]
            _said_nothing(failed)
        # In the kernel, it is asked about the first packet of a flow only.
        if self.mode in BY_PROGRAM:
            self._forwarding.append(switch.pid)

    def _polling_cores(self) -> list[int]:
        """The cores that forward: the last ones."""
        return sorted(os.sched_getaffinity(0))[-(self.cores or 1) :]

    def _ovs_dpdk_settings(self) -> list[str]:
        mask = sum(1 << core for core in self._polling_cores())
        return [
            "other_config:dpdk-init=true",
            f"other_config:pmd-cpu-mask={mask:#x}",
            # Otherwise it asks for --in-memory, which needs huge pages.
            f'other_config:dpdk-extra="{" ".join(_NO_HUGE)} --legacy-mem -m 512"',
        ]

    def _virtio_user(self, place: int, interface: str) -> str:
        """A device of DPDK's whose other side is an interface of the kernel's, of this name."""
        queues = f"queues={self.cores},queue_size=1024"
        return f"net_virtio_user{place},path=/dev/vhost-net,iface={interface},{queues}"

    def _testpmd(self, ports: tuple[str, str]) -> None:
        first, forwarding = min(os.sched_getaffinity(0)), self._polling_cores()
        # The first thread has nothing to do; each of the others has a queue of both ports.
        lcores = ",".join(f"{n}@{core}" for n, core in enumerate([first, *forwarding]))
        count = self.cores or 1
        if self.mode == "dpdk-virtio_user":
            devices = [self._virtio_user(n, port) for n, port in enumerate(ports)]
        else:
            devices = [
                f"net_af_packet{n},iface={port},qpairs={count}" for n, port in enumerate(ports)
            ]
        log = _RUN / f"testpmd{self._number}.log"
        command = [
            # A line at a time, or what it says would come with its end.
            *(
                "stdbuf",
                "-oL",
                "dpdk-testpmd",
                *_NO_HUGE,
                "-m",
                "256",
            ),
            *("--lcores", lcores, "--file-prefix", f"overside{self._number}"),
            *(f"--vdev={device}" for device in devices),
            *("--", "--forward-mode=io", "--auto-start", f"--nb-cores={count}"),
            *(f"--rxq={count}", f"--txq={count}"),
            *("--total-num-mbufs=32768", "--no-mlockall", "--disable-link-check"),
        ]
        process = self._start(command, log, dict(os.environ))
        _wait_for_text(log, "Press enter to exit", process)
        self._forwarding.append(process.pid)

    def _start(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> Process:
        with log.open("wb") as out:
            # Its input is kept open: some programs end when that does.
            process = Process(
                _found(command), stdin=PIPE, stdout=out, stderr=STDOUT, env=environment
            )
        self._processes.append(process)
        return process


class Ends:
    """The ends that a worker measures between: at most one hop at a time, kept for the next
    test. Only in a worker behind `prefix()`."""

    def __init__(self) -> None:
        self._hop: Hop | None = None

    def between(self, test: str) -> str:
        """Returns the test as JSON, with the built hop in place of its mode.

        Raises `ProcessError` if it cannot be built.
        """
        request = json.loads(test)
        mode, cores = request["hop"]["mode"], request["hop"]["cores"]
        if self._hop is not None and (self._hop.mode, self._hop.cores) != (mode, cores):
            self._hop.close()
            self._hop = None
        if self._hop is None:
            self._hop = Hop(mode, cores)
        return json.dumps(request | {"hop": self._hop.json()})


def _found(command: Sequence[str]) -> list[str]:
    return [_find(command[0]) or command[0], *command[1:]]


def _run(command: Sequence[str], text: str = "") -> None:
    output(_found(command), _READY_S, stdin=text.encode())


def _said_nothing(command: Sequence[str]) -> None:
    """Runs a command that prints only errors; fails if it prints any."""
    done = run(command, Limits(_READY_S))
    said = cited(done.stdout + done.stderr_tail.encode())
    if said:
        raise ProcessError(f"Open vSwitch cannot have its ports{said}")


def _batch(lines: Iterable[str], namespace: str | None = None) -> None:
    """Lines for `ip`, in the worker's namespace or in an end's."""
    where = ["-n", namespace] if namespace else []
    text = "".join(f"{line}\n" for line in lines)
    _run(["ip", *where, "-batch", "-"], text)


def _no_offload(interface: str) -> None:
    """Lets the system compute checksums and cut segments before packets reach an interface."""
    value = ctypes.create_string_buffer(struct.pack("=II", _ETHTOOL_STXCSUM, 0), 8)
    request = struct.pack("16sP16x", interface.encode(), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
        except OSError as error:
            what = f"checksum offload of {interface} cannot be switched off"
            raise ProcessError(f"{what}: {error.strerror}") from None


def _wait_for(path: Path, process: Process) -> None:
    _until(path.exists, path.with_name("db.log"), process)


def _wait_for_text(log: Path, text: str, process: Process) -> None:
    _until(lambda: text in log.read_text("utf-8", "replace"), log, process)


def _until(is_ready: Callable[[], bool], log: Path, process: Process) -> None:
    deadline = time.monotonic() + _READY_S
    while not is_ready():
        ended = process.poll() is not None
        if ended or time.monotonic() > deadline:
            how = "ended" if ended else f"was not ready within {_READY_S:g} s"
            raise ProcessError(f"{log.stem} {how}{cited(log.read_bytes())}")
        time.sleep(0.01)
