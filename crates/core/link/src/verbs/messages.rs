//! Small messages, many at a time.

/// Messages of equal length, one after the other in memory.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    each: usize,
    count: usize,
}

impl<'a> Messages<'a> {
    /// The whole messages of `each` bytes that `bytes` begins with; `None` if `each` is 0 or if
    /// something is left over.
    #[inline]
    pub fn packed(bytes: &'a [u8], each: usize) -> Option<Self> {
        let count = bytes.len().checked_div(each)?;
        (count * each == bytes.len()).then_some(Self { bytes, each, count })
    }

    /// A single message; `None` if it is empty.
    #[inline]
    pub fn one(message: &'a [u8]) -> Option<Self> {
        (!message.is_empty()).then_some(Self { bytes: message, each: message.len(), count: 1 })
    }

    /// Returns the number of messages.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The length of each in bytes.
    #[inline]
    pub fn each(&self) -> usize {
        self.each
    }

    /// The bytes of all messages, one after the other.
    #[inline]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the messages after the first `count`, which are left after a send that took `count`.
    ///
    /// # Panics
    /// If there are fewer than `count`.
    #[inline]
    pub fn after(&self, count: usize) -> Self {
        Self { bytes: &self.bytes[count * self.each..], each: self.each, count: self.count - count }
    }
}

/// Received messages. Reused, it allocates nothing once it has grown to the size of a batch.
#[derive(Clone, Debug, Default)]
pub struct RecvBatch {
    bytes: Vec<u8>,
    /// Messages of equal length that came one after the other: length of each, and how many.
    runs: Vec<(usize, usize)>,
}

impl RecvBatch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the messages and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
    }

    /// Returns the number of messages in the batch.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|(_, count)| count).sum()
    }

    /// No message at all.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The messages in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.runs.iter().flat_map(move |&(each, count)| {
            let (run, after) = rest.split_at(each * count);
            rest = after;
            run.chunks_exact(each)
        })
    }

    /// All messages' bytes, one after the other.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends `count` messages of `each` bytes, which `fill` appends to its argument. For
    /// transports.
    ///
    /// # Panics
    /// If `fill` appends more or less.
    #[inline]
    pub fn append(&mut self, each: usize, count: usize, fill: impl FnOnce(&mut Vec<u8>)) {
        let end = self.bytes.len() + each * count;
        fill(&mut self.bytes);
        assert_eq!(self.bytes.len(), end, "{count} messages of {each} bytes");
        match self.runs.last_mut() {
            Some((last, counted)) if *last == each => *counted += count,
            _ => self.runs.push((each, count)),
        }
    }
}
