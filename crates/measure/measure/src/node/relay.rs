//! The host's end of a test that the agent of another node measures.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use overside_backends::agents::{RemoteProbe, probe_same_release};
use overside_link::codec::Message;
use overside_probe::{Failure, FailureKind};
use serde_json::{Map, Value};

use super::digest::Digest;
use super::{
    FileContent, KIND, LOCAL, NodeReply, NodeRequest, PART, PART_BYTES_MAX, SENT_FILES_MAX,
    data_of, environment,
};
use crate::remote_end::no_sample;
use crate::sample::Sample;

/// Time by which the agent's timeout ends before the test's, so that its answer arrives in time.
const MARGIN: Duration = Duration::from_secs(1);
/// Longest time to wait for an agent's description of its machine.
const DESCRIBING: Duration = Duration::from_secs(10);

/// Connections to the agents of other nodes, one each.
#[derive(Default)]
pub(crate) struct Relay {
    nodes: HashMap<String, RemoteProbe>,
    /// The digests of files that have not changed since.
    digests: HashMap<(PathBuf, u64, SystemTime), FileContent>,
}

impl Relay {
    /// Returns the sample of a test that `node` measures. It also reports failures.
    pub(crate) fn measure(&mut self, node: &str, test: Map<String, Value>) -> Sample {
        let taken = self.take(node, test);
        let sample = taken.map_or_else(Sample::without, Sample::settled);
        Sample { node: Some(node.into()), ..sample }
    }

    fn take(&mut self, node: &str, test: Map<String, Value>) -> Result<Sample, Failure> {
        let (mut node, test) = self.send(node, test)?;
        let answer = node.ask(&NodeRequest::Measure(test))?;
        let has_refused = matches!(answer, NodeReply::Failed(_));
        let sample = node.sample(answer);
        // One that has refused this test will take the next.
        if sample.is_ok() || has_refused {
            self.nodes.insert(node.agent.node().into(), node.agent);
        }
        sample
    }

    /// Makes the agent open and verify a test, which then waits.
    ///
    /// # Errors
    /// [`Failure`], also that of the test.
    pub(crate) fn prepare(
        &mut self,
        node: &str,
        test: Map<String, Value>,
    ) -> Result<WaitingTest, Failure> {
        let (mut node, test) = self.send(node, test)?;
        match node.ask(&NodeRequest::Prepare(test))? {
            NodeReply::Ready => Ok(WaitingTest { node }),
            answer => {
                let sample = node.sample(answer)?;
                let failure = sample.error.or(sample.reason.map(Failure::unsupported));
                Err(failure.unwrap_or_else(|| node.strange("a sample of what has not begun")))
            }
        }
    }

    /// Returns the agent of a finished test, for the next one.
    pub(crate) fn give_back(&mut self, test: WaitingTest) {
        let agent = test.node.agent;
        self.nodes.insert(agent.node().into(), agent);
    }

    /// Sends the test's files, and returns it with their digests, and the time that is left.
    fn send(
        &mut self,
        node: &str,
        mut test: Map<String, Value>,
    ) -> Result<(Node, Map<String, Value>), Failure> {
        let timeout_s = test.get("timeout_s").and_then(Value::as_f64).unwrap_or(0.0);
        let deadline = Instant::now() + Duration::from_secs_f64(timeout_s.clamp(0.0, 86400.0));
        let mut files = BTreeMap::new();
        for names in data_of(&mut test) {
            for name in names {
                let path = PathBuf::from(name.as_str().unwrap_or_default());
                let content = self.content(&path)?;
                *name = content.digest.as_str().into();
                files.insert(content.digest.clone(), (content, path));
            }
        }
        if files.len() > SENT_FILES_MAX {
            return Err(Failure::unsupported(format!(
                "a data set of {} files is too much to be sent to a node; the most is \
                 {SENT_FILES_MAX}",
                files.len()
            )));
        }
        let agent = match self.nodes.remove(node) {
            Some(agent) => agent,
            None => probe_same_release(node, KIND).map_err(no_sample)?,
        };
        let mut node = Node { agent, deadline };
        node.send(files.into_values().collect())?;
        let left = deadline.saturating_duration_since(Instant::now() + MARGIN);
        if left.is_zero() {
            let text = "the time of the test was over when its data had been sent";
            return Err(Failure::new(FailureKind::Timeout, text));
        }
        test.insert("timeout_s".into(), left.as_secs_f64().into());
        Ok((node, test))
    }

    /// Returns the digest and length of a file of this machine. A file that has not changed is not
    /// read again.
    fn content(&mut self, path: &Path) -> Result<FileContent, Failure> {
        let failed = |error| {
            let text = format!("{} cannot be read: {error}", path.display());
            Failure::new(FailureKind::Data, text)
        };
        let about = fs::metadata(path).map_err(failed)?;
        let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let key = (path.to_owned(), about.len(), written);
        if let Some(known) = self.digests.get(&key) {
            return Ok(known.clone());
        }
        let (digest, bytes) = Digest::of_file(path).map_err(failed)?;
        let content = FileContent { digest, bytes };
        self.digests.insert(key, content.clone());
        Ok(content)
    }
}

/// A test that another node has verified.
pub(crate) struct WaitingTest {
    node: Node,
}

impl WaitingTest {
    /// Starts its clock. Returns the time on this machine's clock: the middle between request and answer.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn begin(&mut self) -> Result<Instant, Failure> {
        let asked = Instant::now();
        match self.node.ask(&NodeRequest::Begin)? {
            NodeReply::Begun => Ok(asked + asked.elapsed() / 2),
            NodeReply::Failed(failure) => Err(self.node.refused(failure)),
            _ => Err(self.node.strange("something else")),
        }
    }

    /// Waits until the test has ended.
    ///
    /// # Errors
    /// [`Failure`].
    pub(crate) fn finish(&mut self) -> Result<Sample, Failure> {
        let answer = self.node.ask(&NodeRequest::Finish)?;
        let sample = self.node.sample(answer)?.settled();
        Ok(Sample { node: Some(self.node.agent.node().into()), ..sample })
    }
}

/// An agent, for the time of one test.
struct Node {
    agent: RemoteProbe,
    deadline: Instant,
}

impl Node {
    /// Sends the files that it lacks.
    fn send(&mut self, files: Vec<(FileContent, PathBuf)>) -> Result<(), Failure> {
        if files.is_empty() {
            return Ok(());
        }
        let contents = files.iter().map(|(content, _)| content.clone()).collect();
        let lacking = match self.ask(&NodeRequest::Lacks(contents))? {
            NodeReply::Lacks(places) => places,
            NodeReply::Failed(failure) => return Err(self.refused(failure)),
            _ => return Err(self.strange("something else")),
        };
        for place in lacking {
            let Some((content, path)) = files.get(place) else {
                return Err(self.strange("that it lacks what it was not asked for"));
            };
            self.send_file(content, path)?;
        }
        Ok(())
    }

    fn send_file(&mut self, content: &FileContent, path: &Path) -> Result<(), Failure> {
        let failed = |reason: &dyn std::fmt::Display| {
            let text = format!("{} cannot be read: {reason}", path.display());
            Failure::new(FailureKind::Data, text)
        };
        let mut file = File::open(path).map_err(|error| failed(&error))?;
        self.taken(&NodeRequest::File(content.clone()).encode())?;
        let mut left = content.bytes;
        let mut part = vec![PART];
        while left > 0 {
            part.truncate(1);
            let limit = left.min(PART_BYTES_MAX as u64);
            let mut rest = (&mut file).take(limit);
            let read = rest.read_to_end(&mut part).map_err(|error| failed(&error))?;
            if (read as u64) < limit {
                return Err(failed(&"it is shorter than it was"));
            }
            left -= limit;
            self.taken(&part)?;
        }
        Ok(())
    }

    fn taken(&mut self, request: &[u8]) -> Result<(), Failure> {
        match self.ask_bytes(request)? {
            NodeReply::Taken => Ok(()),
            NodeReply::Failed(failure) => Err(self.refused(failure)),
            _ => Err(self.strange("something else")),
        }
    }

    fn ask(&mut self, request: &NodeRequest) -> Result<NodeReply, Failure> {
        self.ask_bytes(&request.encode())
    }

    fn ask_bytes(&mut self, request: &[u8]) -> Result<NodeReply, Failure> {
        if request.len() > NodeRequest::MAX_BYTES {
            let text = "the test is too long to be sent to a node";
            return Err(Failure::unsupported(text));
        }
        let answer = self.agent.ask(request, self.deadline).map_err(no_sample)?;
        NodeReply::decode(&answer).map_err(|error| self.strange(&error.to_string()))
    }

    /// The sample that an answer is.
    fn sample(&self, answer: NodeReply) -> Result<Sample, Failure> {
        match answer {
            NodeReply::Sample(sample) => {
                let read = serde_json::from_value(Value::Object(sample));
                read.map_err(|error| self.strange(&format!("no sample: {error}")))
            }
            NodeReply::Failed(failure) => Err(self.refused(failure)),
            _ => Err(self.strange("something else")),
        }
    }

    /// Adds the agent's name to a failure that the agent reported.
    fn refused(&self, failure: Failure) -> Failure {
        let message = format!("{}: {}", self.agent.node(), failure.message);
        Failure { message, ..failure }
    }

    fn strange(&self, what: &str) -> Failure {
        let text = format!("agent {} answers {what}", self.agent.node());
        Failure::new(FailureKind::Lost, text)
    }
}

/// Returns the environment of a machine, in the format of a run: of this machine (`local`) or of an
/// agent's.
///
/// # Errors
/// [`Failure`]: there is no such agent, or it does not answer.
pub fn node_environment(name: &str) -> Result<Map<String, Value>, Failure> {
    if name == LOCAL {
        return Ok(environment());
    }
    let mut node = Node {
        agent: probe_same_release(name, KIND).map_err(no_sample)?,
        deadline: Instant::now() + DESCRIBING,
    };
    match node.ask(&NodeRequest::Environment)? {
        NodeReply::Environment(mut environment) => {
            environment.insert("name".into(), name.into());
            Ok(environment)
        }
        _ => Err(node.strange("something else")),
    }
}
