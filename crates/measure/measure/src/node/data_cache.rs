//! Files that hosts have sent, kept for the next test: bounded; the file that was used longest ago
//! goes first.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use overside_base::lock;
use overside_probe::{Failure, FailureKind};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::FileContent;
use super::digest::{Digest, Hasher};

/// Prefix of a file's name while the file is being received.
const INCOMING: &str = "incoming-";

/// A directory of files named by their digests, with a limit in bytes. It is made when the first
/// file comes, and one agent has it at a time.
pub struct DataCache {
    directory: PathBuf,
    limit: u64,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    /// Held as long as this cache lives, once it is in use.
    lock: Option<File>,
    kept: HashMap<Digest, CachedFile>,
    /// Bytes of cached files and of files that are being received.
    bytes: u64,
    /// Counter of uses of cached files; `Kept::used` holds values of it.
    uses: u64,
    /// Number of files whose reception has begun; it makes their temporary names unique.
    incoming: u64,
}

/// A file in the cache.
struct CachedFile {
    bytes: u64,
    /// Value of `CacheState::uses` at the last use. Files left by an earlier agent have the lowest
    /// values, in order of modification.
    used: u64,
    /// Number of tests that use it now.
    users: usize,
}

impl DataCache {
    /// A cache in `directory`, of at most `limit` bytes.
    pub fn new(directory: PathBuf, limit: u64) -> Arc<Self> {
        Arc::new(Self { directory, limit, state: Mutex::default() })
    }

    /// A cached file, which stays for as long as the returned value; `None` if it is missing.
    ///
    /// # Errors
    /// [`Failure`] if the directory cannot be used.
    pub(super) fn get(self: &Arc<Self>, file: &FileContent) -> Result<Option<InUse>, Failure> {
        let mut state = lock(&self.state);
        self.open(&mut state)?;
        Ok(self.is_there(&state, file).then(|| self.used(&mut state, file)))
    }

    fn is_there(&self, state: &CacheState, file: &FileContent) -> bool {
        let found = fs::metadata(self.path(&file.digest)).map(|about| about.len());
        let kept = state.kept.get(&file.digest).map(|kept| kept.bytes);
        kept == Some(file.bytes) && found.ok() == Some(file.bytes)
    }

    /// Makes room for a file and begins to take it.
    ///
    /// # Errors
    /// [`Failure`] of the kind `data`: it is too large, all room is in use, or the disk is full.
    pub(super) fn begin(self: &Arc<Self>, file: FileContent) -> Result<Incoming, Failure> {
        let mut state = lock(&self.state);
        self.open(&mut state)?;
        self.make_room(&mut state, file.bytes)?;
        state.incoming += 1;
        let name = format!("{INCOMING}{}", state.incoming);
        let path = self.directory.join(name);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let writer = opened.map_err(|error| self.not_written(&error))?;
        state.bytes += file.bytes;
        Ok(Incoming { cache: Arc::clone(self), file, path, writer, hasher: Hasher::default() })
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.join(digest.as_str())
    }

    fn used(self: &Arc<Self>, state: &mut CacheState, file: &FileContent) -> InUse {
        state.uses += 1;
        let used = state.uses;
        if let Some(kept) = state.kept.get_mut(&file.digest) {
            kept.used = used;
            kept.users += 1;
        }
        InUse { cache: Arc::clone(self), digest: file.digest.clone() }
    }

    /// Makes the directory, and finds its files, when it is first used.
    fn open(&self, state: &mut CacheState) -> Result<(), Failure> {
        if state.lock.is_some() {
            return Ok(());
        }
        let failed = |error: &io::Error| {
            let directory = self.directory.display();
            refused(format!("the directory for data, {directory}, cannot be used: {error}"))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|error| failed(&error))?;
        let directory = File::open(&self.directory).map_err(|error| failed(&error))?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(refused(format!(
                    "another agent uses the directory for data, {}; start this one with another \
                     --data-dir",
                    self.directory.display()
                )));
            }
            Err(error) => return Err(failed(&error.into())),
        }
        let mut found = kept_files(&self.directory).map_err(|error| failed(&error))?;
        found.sort_by_key(|(_, _, written)| *written);
        for (digest, bytes, _) in found {
            let kept = CachedFile { bytes, used: state.uses, users: 0 };
            state.uses += 1;
            state.bytes += bytes;
            state.kept.insert(digest, kept);
        }
        state.lock = Some(directory);
        Ok(())
    }

    fn make_room(&self, state: &mut CacheState, bytes: u64) -> Result<(), Failure> {
        if bytes > self.limit {
            return Err(refused(format!(
                "a file of {bytes} bytes does not fit: there are {} bytes for data (--data-size)",
                self.limit
            )));
        }
        while state.bytes.saturating_add(bytes) > self.limit {
            let unused = state.kept.iter().filter(|(_, kept)| kept.users == 0);
            let oldest = unused.min_by_key(|(_, kept)| kept.used);
            let Some(digest) = oldest.map(|(digest, _)| digest.clone()) else {
                return Err(refused(format!(
                    "there is no room for a file of {bytes} bytes: all of the {} bytes for data are \
                     in use (--data-size)",
                    self.limit
                )));
            };
            // One that is gone already is as good.
            let _ = fs::remove_file(self.path(&digest));
            if let Some(kept) = state.kept.remove(&digest) {
                state.bytes -= kept.bytes;
            }
        }
        Ok(())
    }

    fn not_written(&self, error: &io::Error) -> Failure {
        refused(format!("data cannot be written to {}: {error}", self.directory.display()))
    }
}

/// Returns the files of a directory whose names are digests. Incomplete files of an earlier agent
/// are removed.
fn kept_files(directory: &Path) -> io::Result<Vec<(Digest, u64, SystemTime)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name.starts_with(INCOMING) {
            let _ = fs::remove_file(entry.path());
        } else if let Ok(digest) = Digest::try_from(name)
            && let Ok(about) = entry.metadata()
            && about.is_file()
        {
            let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((digest, about.len(), written));
        }
    }
    Ok(found)
}

fn refused(message: String) -> Failure {
    Failure::new(FailureKind::Data, message)
}

/// A file that is kept for as long as this is.
pub(super) struct InUse {
    cache: Arc<DataCache>,
    digest: Digest,
}

impl InUse {
    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    pub(super) fn path(&self) -> PathBuf {
        self.cache.path(&self.digest)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(kept) = lock(&self.cache.state).kept.get_mut(&self.digest) {
            kept.users -= 1;
        }
    }
}

/// Arriving file. Dropping it removes the received part, unless it was finished.
pub(super) struct Incoming {
    cache: Arc<DataCache>,
    file: FileContent,
    path: PathBuf,
    writer: File,
    hasher: Hasher,
}

impl Incoming {
    /// Writes a part. Returns `true` if it was the last one.
    ///
    /// # Errors
    /// [`Failure`] of the kind `data`: more than was announced, or the disk is full.
    pub(super) fn take(&mut self, part: &[u8]) -> Result<bool, Failure> {
        self.hasher.update(part);
        if self.hasher.bytes() > self.file.bytes {
            return Err(refused(format!(
                "a file of {} bytes was announced, and more came",
                self.file.bytes
            )));
        }
        (self.writer.write_all(part)).map_err(|error| self.cache.not_written(&error))?;
        Ok(self.hasher.bytes() == self.file.bytes)
    }

    /// Keeps the file, if length and digest are as announced.
    ///
    /// # Errors
    /// [`Failure`] of the kind `data`.
    pub(super) fn finish(mut self) -> Result<InUse, Failure> {
        let (digest, bytes) = std::mem::take(&mut self.hasher).finish();
        let announced = &self.file;
        if (&digest, bytes) != (&announced.digest, announced.bytes) {
            return Err(refused(format!(
                "{} bytes with the digest {} were announced, and {bytes} with {digest} came",
                announced.bytes, announced.digest
            )));
        }
        let mut state = lock(&self.cache.state);
        if self.cache.is_there(&state, announced) {
            // Another host has sent the same meanwhile.
            return Ok(self.cache.used(&mut state, announced));
        }
        let kept = self.writer.sync_all();
        let kept = kept.and_then(|()| fs::rename(&self.path, self.cache.path(&digest)));
        kept.map_err(|error| self.cache.not_written(&error))?;
        // One of that name that is there is damaged.
        let damaged = state.kept.remove(&digest);
        state.bytes -= damaged.as_ref().map_or(0, |kept| kept.bytes);
        let kept = CachedFile { bytes, used: 0, users: damaged.map_or(0, |kept| kept.users) };
        state.kept.insert(digest, kept);
        // Dropping this takes away what it has counted.
        state.bytes += bytes;
        Ok(self.cache.used(&mut state, announced))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // One that was finished has another name.
        let _ = fs::remove_file(&self.path);
        lock(&self.cache.state).bytes -= self.file.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> FileContent {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        let (digest, bytes) = hasher.finish();
        FileContent { digest, bytes }
    }

    fn put(cache: &Arc<DataCache>, bytes: &[u8]) -> Result<InUse, Failure> {
        let mut incoming = cache.begin(content(bytes))?;
        for part in bytes.chunks(3) {
            incoming.take(part)?;
        }
        incoming.finish()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_used_longest_ago_goes_and_what_is_in_use_stays() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DataCache::new(directory.path().into(), 10);
        let there = |bytes: &[u8]| cache.get(&content(bytes)).unwrap().is_some();
        let first = put(&cache, b"aaaa").unwrap();
        assert_eq!(fs::read(first.path()).unwrap(), b"aaaa");
        drop(put(&cache, b"bbbb").unwrap());
        // There is no room for a third, and the first is in use.
        drop(put(&cache, b"cccc").unwrap());
        assert!(there(b"aaaa") && !there(b"bbbb") && there(b"cccc"));
        drop(first);
        assert!(there(b"cccc"));
        drop(put(&cache, b"dddd").unwrap());
        assert!(!there(b"aaaa") && there(b"cccc") && there(b"dddd"));
        assert_eq!(names(directory.path()).len(), 2);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_harms_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DataCache::new(directory.path().into(), 10);
        let _used = put(&cache, b"aaaaaaaa").unwrap();
        for bytes in [&b"bbbb"[..], b"ccccccccccccc"] {
            let failure = put(&cache, bytes).err().unwrap();
            assert_eq!(failure.kind, FailureKind::Data);
            assert!(failure.message.contains("--data-size"), "{failure}");
        }
        assert!(put(&cache, b"dd").is_ok());
    }

    #[test]
    fn a_digest_that_lies_and_a_length_that_does_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let cache = DataCache::new(directory.path().into(), 100);
        let mut incoming = cache.begin(content(b"what is said")).unwrap();
        assert!(incoming.take(b"what is sent").unwrap());
        let failure = incoming.finish().err().unwrap();
        assert!(failure.message.contains("were announced"), "{failure}");
        let mut incoming = cache.begin(content(b"short")).unwrap();
        let failure = incoming.take(b"too long").unwrap_err();
        assert!(failure.message.contains("more came"), "{failure}");
        drop(incoming);
        assert_eq!(names(directory.path()), [""; 0]);
        assert_eq!(lock(&cache.state).bytes, 0);
    }

    #[test]
    fn files_outlive_an_agent_and_one_agent_has_them_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let cache = || DataCache::new(directory.path().into(), 100);
        let first = cache();
        drop(put(&first, b"kept").unwrap());
        drop(first.begin(content(b"half")).map(std::mem::forget));
        let refused = cache().get(&content(b"kept")).err().unwrap();
        assert!(refused.message.contains("another agent"), "{refused}");
        // As if the process had ended: nothing holds the lock but the first cache.
        lock(&first.state).lock = None;
        let second = cache();
        assert!(second.get(&content(b"kept")).unwrap().is_some());
        assert_eq!(names(directory.path()).len(), 1, "what was half there is gone");
    }
}
