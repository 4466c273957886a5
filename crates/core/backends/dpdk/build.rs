//! Builds the shim where DPDK is installed.

fn main() {
    overside_shim::build::Shim {
        title: "DPDK",
        name: "dpdk",
        package: "libdpdk",
        oldest: "22.11",
        debian: "libdpdk-dev librte-meta-compress librte-meta-dma",
        flags: &["-DALLOW_EXPERIMENTAL_API"],
    }
    .build();
}
