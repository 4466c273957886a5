//! Options for the method of partitioning.

use overside_flow::operators::PartitionKey;

/// The methods, of which one is given.
#[derive(clap::Args)]
pub(super) struct MethodArguments {
    /// By its lowest N bits, or by bits A up to but not including B, as A..B
    #[arg(long, value_name = "N|A..B")]
    bits: Option<String>,
    /// By its hash, into N partitions
    #[arg(long, value_name = "N")]
    hash: Option<String>,
    /// By value: each bound begins a partition
    #[arg(long, value_name = "A,B,...", allow_hyphen_values = true)]
    ranges: Option<String>,
}

impl MethodArguments {
    /// The column, and what partition its values belong to.
    pub(super) fn key(&self, column: &str) -> Result<PartitionKey, String> {
        let methods = [("bits", &self.bits), ("hash", &self.hash), ("ranges", &self.ranges)];
        let given = methods.into_iter().find_map(|(name, value)| Some((name, value.as_ref()?)));
        let (name, value) = given.ok_or("--bits, --hash or --ranges is missing")?;
        PartitionKey::parse(column, &format!("{name}:{value}")).map_err(|error| error.to_string())
    }
}
