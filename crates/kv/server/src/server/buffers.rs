//! Buffers that connections borrow while they have something in them, so that idle ones hold none.

/// Capacity of a new buffer in bytes. One read takes no more, unless a value is longer.
pub(super) const BUFFER_BYTES: usize = 16 << 10;
/// Larger ones are freed instead of kept.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Buffers that are kept.
const KEPT_MAX: usize = 64;

/// Empty buffers, the one used last on top.
#[derive(Default)]
pub(super) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// Gives `buffer` memory from the pool if it has none.
    pub(super) fn lend(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0 {
            let free = self.0.pop();
            *buffer = free.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES));
        }
    }

    /// Takes the memory of an empty buffer back; one with little in it moves to as much as it needs.
    pub(super) fn settle(&mut self, buffer: &mut Vec<u8>) {
        if buffer.len() > buffer.capacity() / 4 || buffer.capacity() == 0 {
            return;
        }
        let mut free = match buffer.is_empty() {
            true => std::mem::take(buffer),
            false => {
                let rest = buffer.as_slice().to_vec();
                std::mem::replace(buffer, rest)
            }
        };
        if self.0.len() < KEPT_MAX && (BUFFER_BYTES..=KEPT_BYTES_MAX).contains(&free.capacity()) {
            free.clear();
            self.0.push(free);
        }
    }

    /// Memory of the unused buffers, in bytes.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        self.0.iter().map(Vec::capacity).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFER_BYTES, Buffers, KEPT_BYTES_MAX, KEPT_MAX};

    #[test]
    fn memory_goes_round_and_what_is_left_over_keeps_its_bytes() {
        let mut buffers = Buffers::default();
        let (mut one, mut other) = (Vec::new(), Vec::new());
        buffers.lend(&mut one);
        one.extend_from_slice(b"rest");
        buffers.settle(&mut one);
        assert_eq!((one.as_slice(), one.capacity()), (&b"rest"[..], 4));
        assert_eq!(buffers.memory_bytes(), BUFFER_BYTES);
        buffers.lend(&mut other);
        assert!(other.is_empty() && other.capacity() >= BUFFER_BYTES);
        assert_eq!(buffers.memory_bytes(), 0);
        buffers.settle(&mut other);
        assert_eq!(other.capacity(), 0);
    }

    #[test]
    fn large_ones_and_very_many_are_freed() {
        let mut buffers = Buffers::default();
        buffers.settle(&mut Vec::with_capacity(KEPT_BYTES_MAX + 1));
        assert_eq!(buffers.memory_bytes(), 0);
        let mut many: Vec<_> = (0..KEPT_MAX + 9).map(|_| Vec::new()).collect();
        many.iter_mut().for_each(|one| buffers.lend(one));
        many.iter_mut().for_each(|one| buffers.settle(one));
        assert_eq!(buffers.memory_bytes(), KEPT_MAX * BUFFER_BYTES);
    }
}
