//! Builds the shim where DPDK is installed.

fn main() {
    overside_shim::build::Shim {
        package: "libdpdk",
        oldest: "22.11",
        sources: &[
            "environment.c",
            "memory.c",
            "compress.c",
            "copy.c",
            "match.c",
            "ethernet.c",
        ],
        flags: &["-DALLOW_EXPERIMENTAL_API"],
        condition: "shim",
        name: "OVERSIDE_DPDK",
    }
    .build();
}
