//! Manifest: the files and options of a tree.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use overside_config::{Document, Limits, LockedFile, Source, read_text};
use serde::{Deserialize, Serialize};

use super::layout::{Node, TreeOptions};
use super::sequences::Sequences;
use overside_flow_operators::Error;

/// Name of the format, with its version: a file of a newer version is refused, not misread.
const SCHEMA: &str = "overside-tree/1";
const FILE: &str = "tree.json";
const LIMITS: Limits = Limits { values: 2_000_000, ..Limits::bytes(64 << 20) };

/// Options and files of a tree, as they were at the last commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    schema: String,
    pub options: TreeOptions,
    /// Number of the next file. Numbers are not reused.
    pub next: u64,
    /// Number of bytes of values that were absorbed.
    pub absorbed_bytes: u64,
    /// Number of bytes of values that were written in all levels together.
    pub written_bytes: u64,
    /// Numbered batches that are in the tree.
    #[serde(default, skip_serializing_if = "Sequences::is_empty")]
    pub sequences: Sequences,
    /// Name that identifies this tree to the trees it passes rows to; `None` for trees that pass no rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Children of the root that have received all rows of this tree; `None` unless rows are being passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Vec<u32>>,
    /// Files, oldest first.
    pub runs: Vec<Run>,
}

/// File of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub node: Node,
    pub number: u64,
    pub rows: u64,
    /// Number of bytes of the values in memory.
    pub bytes: u64,
}

/// Size of all nodes of a level together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSize {
    /// Number of nodes that have rows.
    pub nodes: u64,
    /// Number of their files.
    pub files: u64,
    /// Number of their rows.
    pub rows: u64,
    /// Number of bytes of their values in memory; files are shorter.
    pub bytes: u64,
}

impl Manifest {
    pub(super) fn new(options: TreeOptions) -> Self {
        Self {
            schema: SCHEMA.into(),
            options,
            next: 0,
            absorbed_bytes: 0,
            written_bytes: 0,
            sequences: Sequences::default(),
            name: None,
            passed: None,
            runs: Vec::new(),
        }
    }

    /// Returns the path of the manifest in a tree's directory.
    pub(super) fn path(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

    /// Reads and checks the manifest. Its content is not trusted.
    pub(super) fn read(directory: &Path) -> Result<Self, Error> {
        let path = Self::path(directory);
        let name = path.display().to_string();
        let is_none = fs::symlink_metadata(&path).is_err_and(|error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        });
        if is_none {
            return Err(Error::Refused(format!(
                "{}: there is no tree; `overside flow tree add` makes one",
                directory.display()
            )));
        }
        let text = read_text(&path, LIMITS.bytes, Source::Regular)?;
        let first = |mut errors: Vec<overside_config::Error>| match errors.is_empty() {
            true => overside_config::Error::of_file(&name, "it is no JSON", "restore the file"),
            false => errors.swap_remove(0),
        };
        let document = Document::json(&name, &text, LIMITS).map_err(first)?;
        document.schema(SCHEMA)?;
        let manifest: Self = document.read()?;
        manifest.options.check_sizes()?;
        let is_wrong = |run: &&Run| !manifest.options.has(run.node) || run.number >= manifest.next;
        if let Some(run) = manifest.runs.iter().find(is_wrong) {
            return Err(Error::Damaged(format!(
                "{name}: file {} belongs to no node of the tree",
                run.number
            )));
        }
        Ok(manifest)
    }

    /// Replaces the manifest on the disk.
    pub(super) fn write(&self, file: &LockedFile) -> Result<(), Error> {
        let text = serde_json::to_string(self).map_err(std::io::Error::from)?;
        Ok(file.replace(&(text + "\n"))?)
    }

    /// Returns the path of a run's file.
    pub(super) fn file(&self, directory: &Path, run: &Run) -> PathBuf {
        let extension = match self.options.is_leaf(run.node) {
            true => "parquet",
            false => "arrows",
        };
        directory.join(format!("{:08}.{extension}", run.number))
    }

    /// Returns the runs of a node, oldest first.
    pub(super) fn of(&self, node: Node) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.node == node)
    }

    /// Returns the size of each level, the root's first.
    pub(super) fn levels(&self) -> Vec<NodeSize> {
        let mut levels = vec![NodeSize::default(); self.options.levels as usize + 1];
        let mut nodes: Vec<Node> = self.runs.iter().map(|run| run.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            levels[node.level as usize].nodes += 1;
        }
        for run in &self.runs {
            let size = &mut levels[run.node.level as usize];
            size.files += 1;
            size.rows += run.rows;
            size.bytes += run.bytes;
        }
        levels
    }
}

/// Returns `true` if a name is one that [`Manifest::file`] makes.
pub(super) fn is_file_of_a_tree(name: &str) -> bool {
    let number = (name.strip_suffix(".parquet")).or_else(|| name.strip_suffix(".arrows"));
    number.is_some_and(|number| number.len() >= 8 && number.bytes().all(|one| one.is_ascii_digit()))
}
