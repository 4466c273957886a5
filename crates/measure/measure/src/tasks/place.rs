//! Node that measures a test, and the number of cores that `all` means there.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::not_a_test;
use super::spec::{Parameter, Reference};
use crate::node::LOCAL;
use crate::test::TestError;

/// The parameter for the machine; `does` describes its part.
pub(super) fn node(does: &str) -> Parameter {
    let doc =
        format!("the machine that {does}: this one (local), or an agent (`overside agents list`)");
    Parameter::text("node", &doc).default(LOCAL).names(Reference::Node)
}

/// Node that measures a test.
pub(crate) enum Place<'a> {
    /// This machine. `cores` is the number of cores if `all` were requested.
    Here { test: Cow<'a, str>, cores: Option<usize> },
    /// The agent of that name.
    Node(String, Map<String, Value>),
}

impl<'a> Place<'a> {
    /// Reads the node, and leaves the rest of the test to the node that measures it.
    pub(crate) fn of(json: &'a str) -> Result<Self, TestError> {
        let mut test: Map<String, Value> = serde_json::from_str(json).map_err(not_a_test)?;
        let node = test.remove("node");
        let cores = match &node {
            None => resolve_all(&mut test),
            Some(Value::String(node)) if node == LOCAL => resolve_all(&mut test),
            Some(Value::String(node)) if !node.is_empty() => {
                return Ok(Self::Node(node.clone(), test));
            }
            Some(other) => {
                let allowed = format!("{LOCAL}, or an agent's name");
                return Err(TestError::bound("node", other, allowed));
            }
        };
        // The text as it is knows the place of an error, and a key that is there twice.
        let test = match node.is_none() && cores.is_none() {
            true => json.into(),
            false => Value::Object(test).to_string().into(),
        };
        Ok(Self::Here { test, cores })
    }
}

/// Replaces `all` by the number of cores. Returns that number if there was an `all`.
pub(crate) fn resolve_all(test: &mut Map<String, Value>) -> Option<usize> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // No more threads than connections can have work.
    let connections = test.get("connections").and_then(Value::as_u64);
    let most = connections.map_or(cores, |most| cores.min(most as usize));
    let mut asked = None;
    for key in ["threads", "depth"] {
        if let Some(value) = test.get_mut(key).filter(|value| *value == "all") {
            *value = most.into();
            asked = Some(most);
        }
    }
    let beside = test.get_mut("beside").and_then(Value::as_object_mut);
    // Another node has cores of its own.
    let here = beside.filter(|beside| !beside.contains_key("node"));
    let beside = here.and_then(resolve_all);
    asked.or(beside)
}
