//! Builds the shim where UCX is installed.

fn main() {
    overside_shim::build::Shim {
        title: "UCX",
        name: "ucx",
        package: "ucx",
        oldest: "1.12",
        debian: "libucx-dev",
        flags: &[],
    }
    .build();
}
