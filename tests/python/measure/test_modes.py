"""Recognising the way that traffic takes through a card, from what the tools say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import overside, parsed, tiny_box
from overside.bench import modes
from overside.bench.modes import Card, Hardware, Switch

#: Output of the tools (examples of their manuals with changed addresses).
ESWITCH = (
    '{"dev":{"pci/0000:03:00.0":{"mode":"switchdev","inline-mode":"none","encap-mode":"basic"}}}'
)
MLXCONFIG = """
Device #1:
----------

Device type:    BlueField3
Name:           900-9D3B6-00CV-A_Ax
Description:    NVIDIA BlueField-3 B3220 P-Series FHHL DPU
Device:         0000:03:00.0

Configurations:                                      Next Boot
        INTERNAL_CPU_MODEL                          EMBEDDED_CPU(1)
*       INTERNAL_CPU_OFFLOAD_ENGINE                 ENABLED(0)
The '*' shows parameters with next value different from default/current value.
"""
OVS_CONFIG = (
    '{"data":[[["map",[["dpdk-init","true"],["hw-offload","true"]]]]],"headings":["other_config"]}'
)
OVS_BRIDGES = '{"data":[["netdev"],[""]],"headings":["datapath_type"]}'

DPU = {"INTERNAL_CPU_MODEL": "EMBEDDED_CPU(1)", "INTERNAL_CPU_OFFLOAD_ENGINE": "ENABLED(0)"}
NIC = DPU | {"INTERNAL_CPU_OFFLOAD_ENGINE": "DISABLED(1)"}
SEPARATED = {"INTERNAL_CPU_MODEL": "SEPERATED_HOST(0)"}


def card(eswitch: str | None = "switchdev", firmware: dict[str, str] | None = None) -> Card:
    return Card("0000:03:00.0", "BlueField-2", eswitch, DPU if firmware is None else firmware)


def mode(seen: Hardware) -> str:
    (finding,) = modes.findings(seen)
    assert finding.kind == "mode"
    return finding.message


@pytest.mark.parametrize(
    ("config", "datapath", "expected"),
    [
        ({}, "system", modes.OVS_KERNEL),
        ({"dpdk-init": "true"}, "netdev", modes.OVS_DPDK),
        # DPDK is there, but the bridge does not use it.
        ({"dpdk-init": "true"}, "system", modes.OVS_KERNEL),
        ({"hw-offload": "true"}, "system", modes.OVS_KERNEL_OFFLOAD),
        ({"hw-offload": "true", "dpdk-init": "true"}, "netdev", modes.OVS_DPDK_OFFLOAD),
        ({"hw-offload": "false", "dpdk-init": "try"}, "netdev", modes.OVS_DPDK),
    ],
)
def test_submodes_with_open_vswitch(config: dict[str, str], datapath: str, expected: str) -> None:
    seen = Hardware((card(),), Switch(config, (datapath,)), on_card=True)
    assert mode(seen).endswith(f"is {expected}")


def test_a_dpdk_program_forwards_where_no_bridge_does() -> None:
    assert modes.DPDK in mode(Hardware((card(),), None, dpdk=True, on_card=True))
    assert modes.DPDK in mode(Hardware((card(),), Switch({}, ()), dpdk=True, on_card=True))
    assert "without anything that forwards" in mode(Hardware((card(),), None, on_card=True))


@pytest.mark.parametrize("firmware", [NIC, SEPARATED])
def test_off_path_is_a_matter_of_firmware(firmware: dict[str, str]) -> None:
    for on_card in (True, False):
        assert modes.OFF_PATH in mode(Hardware((card(firmware=firmware),), on_card=on_card))


def test_offload_without_switchdev_is_only_half_set() -> None:
    switch = Switch({"hw-offload": "true"}, ("system",))
    (finding,) = modes.findings(Hardware((card("legacy"),), switch, on_card=True))
    assert modes.OVS_KERNEL in finding.message
    assert finding.remedy == "devlink dev eswitch set pci/0000:03:00.0 mode switchdev"


def test_a_host_does_not_guess_what_the_card_does() -> None:
    told = mode(Hardware((card(),), Switch({"hw-offload": "true"}, ("system",))))
    assert "DPU mode" in told
    assert "on the card only" in told
    assert "not known" in mode(Hardware((card(firmware={}),)))


def test_a_machine_without_either() -> None:
    assert mode(Hardware()) == "network mode: no BlueField, no Open vSwitch"
    assert (
        mode(Hardware(switch=Switch({}, ("system",)))) == "network mode: no BlueField, Open vSwitch"
    )


def test_what_the_tools_say_is_read_strictly() -> None:
    assert modes.parse_eswitch(ESWITCH) == "switchdev"
    for broken in ("", "{}", '{"dev":{}}', '{"dev":{"pci/0":{"mode":3}}}', '{"dev":[]}', "[1]"):
        assert modes.parse_eswitch(broken) is None, broken
    assert modes.parse_firmware(MLXCONFIG) == DPU
    assert modes.parse_firmware("-E- Failed to open the device\n") == {}
    switch = modes.parse_switch(OVS_CONFIG, OVS_BRIDGES)
    assert switch == Switch({"dpdk-init": "true", "hw-offload": "true"}, ("netdev", "system"))
    assert modes.parse_switch('{"data":[]}', '{"data":[]}') == Switch({}, ())
    for broken in ("", "{}", '{"data":3}', '{"data":[[]]}'):
        assert modes.parse_switch(broken, OVS_BRIDGES) is None, broken


def test_cards_are_found_by_their_numbers(tmp_path: Path) -> None:
    for name, vendor, device in [
        ("0000:03:00.0", "0x15b3", "0xa2d6"),
        ("0000:03:00.1", "0x15b3", "0xa2dc"),
        ("0000:04:00.0", "0x15b3", "0x101d"),
        ("0000:05:00.0", "0x8086", "0xa2d6"),
    ]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "device").write_text(f"{device}\n")
    virtual = tmp_path / "0000:03:00.2"
    virtual.mkdir()
    (virtual / "vendor").write_text("0x15b3\n")
    (virtual / "device").write_text("0xa2d6\n")
    (virtual / "physfn").mkdir()
    (tmp_path / "0000:06:00.0").mkdir()
    assert list(modes._bluefields(tmp_path)) == [
        ("0000:03:00.0", "BlueField-2"),
        ("0000:03:00.1", "BlueField-3"),
    ]


def test_samples_have_the_mode_and_modes_are_not_compared(tmp_path: Path) -> None:
    cards = (card(), card(firmware=NIC), card())
    seen = Hardware(cards, Switch({}, ("system",)), on_card=True)
    assert modes.card_mode(seen) == f"{modes.OVS_KERNEL} and {modes.mode_of(cards[1], seen)[0]}"
    assert modes.card_mode(Hardware()) is None
    tiny_box(tmp_path, rounds=1)
    for name, words in (("a", ()), ("b", ("--card-mode", "off-path"))):
        overside("run", "tiny.json", "--name", name, *words, cwd=tmp_path, code=0)
    lines = (tmp_path / "results/b/samples.jsonl").read_text().splitlines()
    assert {json.loads(line)["card_mode"] for line in lines} == {modes.OFF_PATH}
    done = overside("compare", "a", "b", "--json", cwd=tmp_path)
    compared = json.loads(done.stdout)
    assert not compared["compared"]
    reasons = {entry["reason"] for entry in compared["not_compared"]}
    assert reasons == {"card mode no card against off-path; --across compares it nevertheless"}
    done = overside("compare", "a", "b", "--across", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["compared"]
    assert (
        "possible values: off-path"
        in overside("run", "tiny.json", "--card-mode", "x", code=2).stderr
    )


def test_the_literatures_names_of_modes_are_accepted_and_shown(tmp_path: Path) -> None:
    for number, (mode, shown) in enumerate(list(modes.BY_NAME.items())[1:], 1):
        for name in (f"SM{number}", f"sm{number}", mode):
            assert parsed("run", "--card-mode", name).card_mode == mode
        assert shown.startswith(f"on-path {number} (SM{number}): ")
    tiny_box(tmp_path, rounds=1)
    for name in ("SM2", "sm4"):
        words = ("--name", name, "--card-mode", name)
        overside("run", "tiny.json", *words, cwd=tmp_path, code=0)
    overside("report", "SM2", "--format", "md", cwd=tmp_path, code=0)
    reported = (tmp_path / "results/SM2/report.md").read_text()
    assert f"- **Card mode**: {modes.OVS_DPDK}" in reported.replace("\\", "")
    compared = json.loads(overside("compare", "SM2", "sm4", "--json", cwd=tmp_path).stdout)
    (reason,) = {entry["reason"] for entry in compared["not_compared"]}
    assert reason.startswith(f"card mode {modes.OVS_DPDK} against {modes.OVS_KERNEL_OFFLOAD};")
    for wrong in ("SM0", "SM6", "SM"):
        said = overside("run", "tiny.json", "--card-mode", wrong, code=2).stderr
        assert "possible values: off-path" in said


def test_doctor_says_which_mode(tmp_path: Path) -> None:
    report = json.loads(overside("doctor", "--json", cwd=tmp_path, code=0).stdout)
    said = [finding["message"] for finding in report["findings"] if finding["kind"] == "mode"]
    assert said
    assert all(message.startswith("network mode: ") for message in said)
