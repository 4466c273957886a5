//! Stages in a definition: one of the kinds in the table below, and its placement.

use std::path::Path;

use arrow_schema::SchemaRef;
use overside_config::{Document, Error as ConfigError, Limits};
use overside_placement::Policy;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::definition::placement::StagePlacement;
use crate::definition::word;
use crate::stage::{CompiledStage, Resources, StageKind};
use crate::stages;

/// Makes [`StageDefinition`] from the table of kinds: key, field, type.
macro_rules! stage_kinds {
    ($($key:literal $field:ident $kind:ty;)*) => {
        /// Stage in a definition: one of the kinds, and its placement.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct StageDefinition {
            pub(crate) name: Option<String>,
            #[serde(default, with = "word")]
            pub(crate) placement: StagePlacement,
            pub(crate) node: Option<String>,
            pub(crate) device: Option<String>,
            $(
                #[serde(rename = $key)]
                $field: Option<$kind>,
            )*
        }

        impl StageDefinition {
            /// Names of the kinds of stages.
            pub const KINDS: &[&str] = &[$($key),*];

            /// Returns the kinds that are set, with their keys. A checked definition has exactly one.
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

/// Limits of a stage that is sent to a node.
const LIMITS: Limits = Limits::bytes(1 << 20);
const NAME_CHARS_MAX: usize = 64;

impl StageDefinition {
    /// Returns the stage's name, or its kind if it has no name.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.kind())
    }

    /// Returns the kind of the stage.
    pub fn kind(&self) -> &'static str {
        self.kinds().first().map_or("", |(key, _)| key)
    }

    /// Returns the placement of the stage.
    pub fn placement(&self) -> &StagePlacement {
        &self.placement
    }

    /// Returns the node that takes part, if any.
    pub fn node(&self) -> Option<&str> {
        self.placement.node(self.node.as_deref())
    }

    /// Returns the device that takes part, if any: the node's if there is a node, otherwise the host's.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Returns the policy between CPU and device. On a node the device gets all work; on the host
    /// the placement decides.
    pub(crate) fn device_policy(&self) -> Policy {
        match self.node() {
            Some(_) => Policy::Device,
            None => self.placement.policy(),
        }
    }

    /// Returns its number of partitions, without that of null keys; `None` if it does not partition.
    pub fn partitions(&self) -> Option<u32> {
        self.kinds().first()?.1.partitions()
    }

    /// Serializes the definition as text that [`StageDefinition::parse`] reads; it refers to no other file.
    pub fn to_toml(&self) -> String {
        // Texts, numbers and tables can always be serialized.
        toml::to_string(self).unwrap_or_default()
    }

    /// Parses the output of [`StageDefinition::to_toml`], for example on another machine.
    ///
    /// # Errors
    /// The first wrong key; `from` is the name of the text in messages.
    pub fn parse(from: &str, text: &str) -> Result<Self, ConfigError> {
        let document = Document::toml(from, text, LIMITS)?;
        let mut stage: Self = document.read()?;
        let nowhere = Path::new("");
        stage.check(nowhere).map_err(|error| document.locate(error))?;
        Ok(stage)
    }

    /// Compiles the stage for batches of `schema`.
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

    pub(crate) fn check(&mut self, directory: &Path) -> Result<(), ConfigError> {
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
        self.placement.check(self.node.as_deref(), self.device.as_deref())
    }
}
