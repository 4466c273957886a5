//! What a layer remembers of each job that is inside.

use overside_device::{Completion, Job};

/// Jobs inside by a number of the layer's own, which stands in for the caller's tag: tags need not
/// be unique.
pub(crate) struct JobTable<T> {
    entries: Vec<Option<(u64, T)>>,
    free: Vec<usize>,
}

impl<T> Default for JobTable<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> JobTable<T> {
    /// Remembers `value` of a job and gives the job a number for a tag.
    pub(crate) fn insert(&mut self, job: &mut Job, value: T) {
        let entry = Some((job.tag, value));
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        job.tag = number as u64;
    }

    /// Forgets a job that was not taken and gives it its tag back: what was remembered of it.
    pub(crate) fn undo(&mut self, job: &mut Job) -> Option<T> {
        let (tag, value) = self.remove(job.tag)?;
        job.tag = tag;
        Some(value)
    }

    /// What was remembered of a job that is over, which has its tag back; `None` if there is no
    /// such job.
    pub(crate) fn finish(&mut self, completion: &mut Completion) -> Option<T> {
        let (tag, value) = self.remove(completion.tag)?;
        completion.tag = tag;
        Some(value)
    }

    /// The caller's tag of a job inside.
    pub(crate) fn tag(&self, number: u64) -> Option<u64> {
        let entry = self.entries.get(usize::try_from(number).ok()?)?;
        entry.as_ref().map(|(tag, _)| *tag)
    }

    fn remove(&mut self, number: u64) -> Option<(u64, T)> {
        let number = usize::try_from(number).ok()?;
        let entry = self.entries.get_mut(number)?.take()?;
        self.free.push(number);
        Some(entry)
    }
}
