//! Placement of each file by a placement file, whose rules depend on format and size.

use std::cell::RefCell;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use overside_compress::{Container, Options};
use overside_device::{Device, Operation};
use overside_placement::PlacementFile;

use super::arguments::Request;
use super::input::Input;
use super::stream::MAGIC_BYTES;
use super::{Verb, names};

type Devices = Vec<Arc<dyn Device>>;

/// Placement file with its devices that were opened so far.
pub(super) struct PlacementRules {
    file: PlacementFile,
    open: RefCell<Vec<(String, Devices)>>,
}

impl PlacementRules {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let file = PlacementFile::read(path).map_err(|error| error.to_string())?;
        Ok(Self { file, open: RefCell::default() })
    }

    /// Applies the rule for `input`; without a rule the CPU runs it. A chunk length from the
    /// command line has priority.
    pub(super) fn apply(
        &self,
        request: &Request,
        input: &Input,
        options: &mut Options,
    ) -> Result<(), String> {
        let rule = operation(request, input).and_then(|of| self.file.rule(of, input.len()));
        let Some(rule) = rule else {
            return Ok(());
        };
        options.policy = rule.policy();
        if let (None, Some(chunk_bytes)) = (request.chunk, rule.chunk_bytes) {
            options.chunk_bytes = usize::try_from(chunk_bytes).unwrap_or(options.chunk_bytes);
        }
        if let (true, Some(name)) = (options.policy.uses_device(), &rule.device) {
            options.devices = self.devices(name, request.arguments.placement.threads())?;
        }
        Ok(())
    }

    /// Opens the devices of each rule once.
    fn devices(&self, names: &str, threads: usize) -> Result<Devices, String> {
        let mut open = self.open.borrow_mut();
        if let Some((_, devices)) = open.iter().find(|(known, _)| known == names) {
            return Ok(devices.clone());
        }
        let devices = overside_backends::open_accelerators(names, threads)
            .map_err(|error| error.to_string())?;
        if devices.is_empty() {
            return Err(format!("{names} is no device beside the CPU"));
        }
        open.push((names.to_owned(), devices.clone()));
        Ok(devices)
    }
}

/// Returns the operation for the parts of `input`. `None` if its parts cannot be processed
/// separately, or if its format is unknown before it is read.
fn operation(request: &Request, input: &Input) -> Option<Operation> {
    match request.verb {
        Verb::Compress => Some(request.container.unwrap_or(Container::Gzip).compress()),
        Verb::Decompress => request.container.or_else(|| format(input))?.decompress(),
    }
}

fn format(input: &Input) -> Option<Container> {
    let mut begin = [0; MAGIC_BYTES];
    // Anything but a regular file cannot be read ahead, but its name may give the format.
    let read = input.metadata.as_ref().and_then(|_| input.file.read_at(&mut begin, 0).ok());
    read.and_then(|len| Container::detect(&begin[..len]))
        .or_else(|| names::format(input.path.as_deref()?))
}
