//! Stages: what is done to each batch. A kind of stage is a file in `stages` and a line in the table
//! below.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_config::{Document, Error as ConfigError, Limits};
use overside_device::{Device, Operation};
use overside_placement::{Policy, Report};
use serde::{Deserialize, Serialize};

use super::outputs::Partition;
use super::placement::StagePlacement;
use super::stages;
use crate::Error;
use crate::operators::values_bytes;

/// A batch and the partition that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The partition; that of null keys comes after all others.
    pub partition: Partition,
    /// The rows.
    pub batch: RecordBatch,
}

impl Piece {
    /// A batch that is not partitioned.
    pub fn new(batch: RecordBatch) -> Self {
        Self {
            partition: None,
            batch,
        }
    }
}

/// Bytes of the values of several.
pub(super) fn bytes_of(pieces: &[Piece]) -> u64 {
    let bytes = pieces.iter().map(|piece| values_bytes(&piece.batch) as u64);
    bytes.sum()
}

/// What a kind of stage is asked for: the settings that a definition gives it.
pub(crate) trait StageKind: Debug + Send + Sync {
    /// Whether the settings are possible, as far as can be told without data. Files that they name
    /// are relative to `directory`, and are read now, so that the settings stand for themselves.
    fn check(&mut self, directory: &Path) -> Result<(), ConfigError> {
        let _ = directory;
        Ok(())
    }

    /// Whether a device can do it.
    fn takes_device(&self) -> bool {
        false
    }

    /// How many partitions it makes, if it does, beside that of null keys.
    fn partitions(&self) -> Option<u32> {
        None
    }

    /// Makes it ready for batches of a schema.
    fn compile(&self, schema: &SchemaRef, resources: &Resources) -> Result<CompiledStage, Error>;
}

/// What a stage may use on the machine that it runs on.
#[derive(Clone, Default)]
pub(crate) struct Resources {
    /// The devices that take part, and which part.
    pub devices: Option<(Vec<Arc<dyn Device>>, Policy)>,
}

/// Makes what one thread works with.
pub(crate) type MakeFunction = Box<dyn Fn() -> Result<Box<dyn StageFunction>, Error> + Send + Sync>;

/// A stage for batches of one schema.
pub(crate) struct CompiledStage {
    /// The schema of what comes out.
    pub schema: SchemaRef,
    /// Makes what one thread works with.
    pub make: MakeFunction,
}

/// A stage as one thread has it: a pure function of a batch.
pub(crate) trait StageFunction: Send {
    /// What becomes of a batch. A partition that is `None` is that of the batch.
    fn apply(&mut self, batch: &RecordBatch) -> Result<Vec<Piece>, Error>;

    /// What it has run through executors, on threads of theirs and on devices.
    fn reports(&self) -> Vec<(Operation, Report)> {
        Vec::new()
    }
}

impl CompiledStage {
    /// Of a function that needs nothing but itself.
    pub(crate) fn of<F>(schema: SchemaRef, function: F) -> Self
    where
        F: Fn(&RecordBatch) -> Result<RecordBatch, Error> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        let make = move || {
            let function = Arc::clone(&function);
            Ok(Self::boxed(move |batch| function(batch)))
        };
        Self {
            schema,
            make: Box::new(make),
        }
    }

    /// What makes one batch of a batch.
    pub(crate) fn boxed<F>(mut function: F) -> Box<dyn StageFunction>
    where
        F: FnMut(&RecordBatch) -> Result<RecordBatch, Error> + Send + 'static,
    {
        Box::new(move |batch: &RecordBatch| Ok(vec![Piece::new(function(batch)?)]))
    }
}

impl<F: FnMut(&RecordBatch) -> Result<Vec<Piece>, Error> + Send> StageFunction for F {
    fn apply(&mut self, batch: &RecordBatch) -> Result<Vec<Piece>, Error> {
        self(batch)
    }
}

/// Makes [`StageDefinition`] out of the table of kinds: key, field, type.
macro_rules! stage_kinds {
    ($($key:literal $field:ident $kind:ty;)*) => {
        /// A stage as a definition has it: one of the kinds, and where it runs.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct StageDefinition {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub(super) name: Option<String>,
            #[serde(default)]
            pub(super) placement: StagePlacement,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub(super) node: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub(super) device: Option<String>,
            $(
                #[serde(rename = $key, default, skip_serializing_if = "Option::is_none")]
                $field: Option<$kind>,
            )*
        }

        impl StageDefinition {
            /// The kinds of stages.
            pub const KINDS: &[&str] = &[$($key),*];

            /// The kinds that are set, with their keys; one of them, once it was checked.
            fn kinds(&self) -> Vec<(&'static str, &dyn StageKind)> {
                let mut kinds: Vec<(&'static str, &dyn StageKind)> = Vec::new();
                $(kinds.extend(self.$field.as_ref().map(|kind| ($key, kind as &dyn StageKind)));)*
                kinds
            }

            fn kinds_mut(&mut self) -> Vec<(&'static str, &mut dyn StageKind)> {
                let mut kinds: Vec<(&'static str, &mut dyn StageKind)> = Vec::new();
                $(
                    let kind = self.$field.as_mut();
                    kinds.extend(kind.map(|kind| ($key, kind as &mut dyn StageKind)));
                )*
                kinds
            }
        }
    };
}

stage_kinds! {
    "compress" compress stages::compress::Compress;
    "decompress" decompress stages::decompress::Decompress;
    "filter" filter stages::filter::Filter;
    "match" matching stages::matching::Match;
    "partition" partition stages::partition::Partition;
    "rechunk" rechunk stages::rechunk::Rechunk;
    "select" select stages::select::Select;
    "sort" sort stages::sort::Sort;
}

/// A stage that travels is at most so long.
const LIMITS: Limits = Limits::bytes(1 << 20);
const NAME_CHARS_MAX: usize = 64;

impl StageDefinition {
    /// What it is called: its name, or its kind.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.kind())
    }

    /// Which kind it is.
    pub fn kind(&self) -> &'static str {
        self.kinds().first().map_or("", |(key, _)| key)
    }

    /// Where it runs.
    pub fn placement(&self) -> &StagePlacement {
        &self.placement
    }

    /// The node that takes part, if one does.
    pub fn node(&self) -> Option<&str> {
        self.placement.node(self.node.as_deref())
    }

    /// The device that takes part, if one does: the node's if there is a node, else the host's.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// What the device gets: on a node all that it does, on the host what the placement says.
    pub(super) fn device_policy(&self) -> Policy {
        match self.node() {
            Some(_) => Policy::Device,
            None => self.placement.policy(),
        }
    }

    /// How many partitions it makes, if it does, beside that of null keys.
    pub fn partitions(&self) -> Option<u32> {
        self.kinds().first()?.1.partitions()
    }

    /// As text that [`StageDefinition::parse`] reads; it needs no other file.
    pub fn to_toml(&self) -> String {
        // Texts, numbers and tables can always be written.
        toml::to_string(self).unwrap_or_default()
    }

    /// Reads what [`StageDefinition::to_toml`] wrote, on another machine for instance.
    ///
    /// # Errors
    /// The first key that is wrong; `from` is for messages.
    pub fn parse(from: &str, text: &str) -> Result<Self, ConfigError> {
        let document = Document::toml(from, text, LIMITS)?;
        let mut stage: Self = document.read()?;
        let nowhere = Path::new("");
        stage
            .check(nowhere)
            .map_err(|error| document.locate(error))?;
        Ok(stage)
    }

    /// The schema of what comes out for batches of `schema`, and what makes it.
    pub(crate) fn compile(
        &self,
        schema: &SchemaRef,
        resources: &Resources,
    ) -> Result<CompiledStage, Error> {
        match self.kinds().first() {
            Some((_, kind)) => kind.compile(schema, resources),
            None => Err(Error::Refused("a stage without a kind".into())),
        }
    }

    pub(super) fn check(&mut self, directory: &Path) -> Result<(), ConfigError> {
        let known = Self::KINDS.join(", ");
        let mut kinds = self.kinds_mut();
        if kinds.len() != 1 {
            let found: Vec<&str> = kinds.iter().map(|(key, _)| *key).collect();
            let problem = match found.is_empty() {
                true => "it does nothing".to_owned(),
                false => format!("it does several things: {}", found.join(", ")),
            };
            return Err(ConfigError::of_key("", problem, format!("one of {known}")));
        }
        let (key, kind) = &mut kinds[0];
        let (key, takes_device) = (*key, kind.takes_device());
        kind.check(directory).map_err(|error| ConfigError {
            key: match error.key.is_empty() {
                true => key.to_owned(),
                false => format!("{key}.{}", error.key),
            },
            ..error
        })?;
        if let Some(name) = &self.name
            && !(1..=NAME_CHARS_MAX).contains(&name.chars().count())
        {
            let remedy = format!("1 to {NAME_CHARS_MAX} characters");
            return Err(ConfigError::of_key("name", "not a name", remedy));
        }
        if self.device.is_some() && !takes_device {
            let problem = format!("no device does {key}");
            return Err(ConfigError::of_key("device", problem, "leave it out"));
        }
        self.placement
            .check(self.node.as_deref(), self.device.as_deref())
    }
}
