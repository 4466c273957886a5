//! Memory on pages of a requested size, which is verified.

// Maps memory and hands out what is in it.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use overside_base::memory_figure;
use overside_config::units::size;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The pages that memory is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pages {
    /// Pages as the system gives them to every process.
    #[default]
    System,
    /// Pages of the smallest size.
    Small,
    /// Huge ones: reserved if the system has some, else transparent.
    Huge,
}

/// Zeroed memory of this process.
pub(crate) struct Block {
    start: NonNull<u8>,
    len: usize,
    mapping: NonNull<c_void>,
    mapping_len: usize,
    /// Description of the pages, for people.
    pub(crate) title: String,
}

// SAFETY: it owns its mapping, and hands out atomics to shared and plain memory to unique holders.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping that `map` made, and nothing borrowed from `self` is
        // left.
        let unmapped = unsafe { munmap(self.mapping.as_ptr(), self.mapping_len) };
        debug_assert!(unmapped.is_ok());
    }
}

impl Block {
    /// `len` bytes, a multiple of 8, all of them touched.
    pub(crate) fn new(len: usize, pages: Pages) -> Result<Self, Failure> {
        match pages {
            Pages::System => {
                let block = Self::map(len, MapFlags::PRIVATE, 0)?;
                block.touch();
                Ok(block.titled("pages as the system gives them".into()))
            }
            Pages::Small => {
                let block = Self::map(len, MapFlags::PRIVATE, 0)?;
                // A kernel without transparent huge pages refuses, and has small ones only.
                let _ = block.advise(Advice::LinuxNoHugepage);
                block.touch();
                let page = rustix::param::page_size();
                Ok(block.titled(format!("pages of {}", size(page as f64))))
            }
            Pages::Huge => Self::huge(len),
        }
    }

    fn huge(len: usize) -> Result<Self, Failure> {
        let reserved = reserved_page_bytes();
        let whole = len.div_ceil(reserved).max(1) * reserved;
        if let Ok(mut block) = Self::map(whole, MapFlags::PRIVATE | MapFlags::HUGETLB, 0) {
            block.touch();
            block.len = len;
            return Ok(block.titled(format!("reserved huge pages of {}", size(reserved as f64))));
        }
        let page = huge_page_bytes();
        let whole = len.div_ceil(page).max(1) * page;
        let mut block = Self::map(whole, MapFlags::PRIVATE, page)?;
        let advised = block.advise(Advice::LinuxHugepage);
        block.touch();
        let given = advised
            .ok()
            .and_then(|()| huge_bytes(&smaps(), block.start.as_ptr() as usize, whole))
            .unwrap_or(0);
        if given < whole {
            return Err(Failure::unsupported(format!(
                "{} of {} could be had on huge pages: reserve some (sysctl vm.nr_hugepages={}), or \
                 allow transparent ones (echo madvise > \
                 /sys/kernel/mm/transparent_hugepage/enabled)",
                size(given as f64),
                size(whole as f64),
                whole / page
            )));
        }
        block.len = len;
        Ok(block.titled(format!("transparent huge pages of {}", size(page as f64))))
    }

    /// A mapping with `len` bytes in it. With `align`, they start at a multiple of it, and at least as much lies before
    /// and behind them that is not used: so they stay a mapping of their own for the kernel once they are advised
    /// otherwise, and the kernel's figures for it are only of them.
    fn map(len: usize, flags: MapFlags, align: usize) -> Result<Self, Failure> {
        let mapping_len = len + 3 * align;
        // SAFETY: a new anonymous mapping, at a place of the kernel's choice, replaces nothing.
        let mapping = unsafe {
            mmap_anonymous(ptr::null_mut(), mapping_len, ProtFlags::READ | ProtFlags::WRITE, flags)
        }
        .map_err(|error| no_memory(mapping_len, error))?;
        let mapping = NonNull::new(mapping).expect("the kernel maps nothing at address 0");
        let address = mapping.as_ptr() as usize;
        let skip = match align {
            0 => 0,
            align => (address + align).next_multiple_of(align) - address,
        };
        // SAFETY: `skip` is at most twice `align`, so start and end lie within the mapping.
        let start = unsafe { mapping.cast::<u8>().add(skip) };
        Ok(Self { start, len, mapping, mapping_len, title: String::new() })
    }

    fn titled(mut self, title: String) -> Self {
        self.title = title;
        self
    }

    fn advise(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: the advices used here change no contents.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, advice) }
    }

    /// Makes the kernel give each page.
    fn touch(&self) {
        for at in (0..self.len).step_by(4096) {
            // SAFETY: within the mapping, to which no reference exists yet.
            unsafe { self.start.add(at).write_volatile(0) };
        }
    }

    /// Returns the block as words, which any thread may read and write.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: `len` initialised bytes, aligned to a page, of which all values are valid; while
        // they are shared they are reached through atomics only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / 8) }
    }

    /// Returns the block as floating-point numbers.
    pub(crate) fn floats(&mut self) -> &mut [f64] {
        // SAFETY: as in `words`, and `self` is the only handle.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / 8) }
    }
}

fn no_memory(len: usize, error: Errno) -> Failure {
    Failure::unsupported(format!(
        "{} of memory cannot be had ({error}): take a smaller buffer_size or fewer threads",
        size(len as f64)
    ))
}

/// The size of a transparent huge page; 2 MiB if the system does not report it.
fn huge_page_bytes() -> usize {
    let path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
    let told = std::fs::read_to_string(path).ok();
    a_page(told.and_then(|text| text.trim().parse().ok()))
}

/// Returns the default size of reserved huge pages.
fn reserved_page_bytes() -> usize {
    let told = memory_figure("/proc/meminfo", "Hugepagesize");
    a_page(told.and_then(|bytes| usize::try_from(bytes).ok()))
}

/// The reported size, if it is valid.
fn a_page(bytes: Option<usize>) -> usize {
    bytes
        .filter(|bytes| bytes.is_power_of_two() && (1 << 16..=1 << 30).contains(bytes))
        .unwrap_or(2 << 20)
}

fn smaps() -> String {
    std::fs::read_to_string("/proc/self/smaps").unwrap_or_default()
}

/// Bytes on transparent huge pages in the mappings that lie within `len` bytes from `start`; `None`
/// if there is no such mapping.
fn huge_bytes(smaps: &str, start: usize, len: usize) -> Option<usize> {
    let mut inside = false;
    let mut found = None;
    for line in smaps.lines() {
        if let Some((from, to)) = range(line) {
            inside = from >= start && to <= start + len;
        } else if let (true, Some(rest)) = (inside, line.strip_prefix("AnonHugePages:")) {
            let kib: usize = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
            found = Some(found.unwrap_or(0) + kib * 1024);
        }
    }
    found
}

/// The addresses of a line that begins a mapping.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, rest) = line.split_once('-')?;
    let (to, _) = rest.split_once(' ')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(from)?, address(to)?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{Block, Pages, huge_bytes, smaps};

    #[test]
    fn memory_is_zeroed_and_as_long_as_asked() {
        for pages in [Pages::System, Pages::Small] {
            let block = Block::new(24, pages).unwrap();
            assert_eq!(block.words().len(), 3);
            assert!(block.words().iter().all(|w| w.load(Ordering::Relaxed) == 0));
            assert!(!block.title.is_empty());
        }
    }

    #[test]
    fn huge_pages_are_really_given_or_it_says_how_to_get_them() {
        match Block::new(3 << 20, Pages::Huge) {
            Ok(block) => {
                assert_eq!(block.words().len(), (3 << 20) / 8);
                assert!(block.title.contains("huge pages of"));
            }
            Err(failure) => assert!(failure.message.contains("hugepage"), "{failure}"),
        }
    }

    #[test]
    fn small_pages_are_not_huge() {
        let block = Block::new(8 << 20, Pages::Small).unwrap();
        let start = block.start.as_ptr() as usize;
        // The kernel may join it with a neighbour, and then tells nothing of it alone.
        assert!(huge_bytes(&smaps(), start, block.len).is_none_or(|bytes| bytes == 0));
    }

    #[test]
    fn what_the_kernel_tells_of_other_mappings_does_not_count() {
        let smaps = "00100000-00300000 rw-p 00000000 00:00 0\nSize: 2048 kB\n\
                     AnonHugePages:      2048 kB\n\
                     00300000-00700000 rw-p 00000000 00:00 0 [heap]\nAnonHugePages:  4096 kB\n";
        assert_eq!(huge_bytes(smaps, 0x30_0000, 0x40_0000), Some(4096 << 10));
        assert_eq!(huge_bytes(smaps, 0x10_0000, 0x60_0000), Some(6144 << 10));
        assert_eq!(huge_bytes(smaps, 0x80_0000, 0x10_0000), None);
    }
}
