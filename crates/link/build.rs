//! Builds the shim where UCX is installed.

fn main() {
    overside_shim::build::Shim {
        package: "ucx",
        oldest: "1.12",
        sources: &["context.c", "worker.c", "operations.c"],
        flags: &[],
        condition: "ucx",
        name: "OVERSIDE_UCX",
    }
    .build();
}
