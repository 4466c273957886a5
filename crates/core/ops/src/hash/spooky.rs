//! SpookyHash V2 (Bob Jenkins, public domain) with seeds 0. The 64-bit and the 32-bit hash are the
//! low bits of the 128-bit one.

use super::function::{HashLibrary, function};
use super::own_version;
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "spooky",
        label: "spooky",
        title: "overside",
        version: own_version,
        simd: false,
    },
    // The shorter ones are the low bits of the longest.
    functions: &[
        function!(Spooky32, |bytes: &[u8]| spooky_128(bytes, [0; 2]) as u32),
        function!(Spooky64, |bytes: &[u8]| spooky_128(bytes, [0; 2]) as u64),
        function!(Spooky128, |bytes: &[u8]| spooky_128(bytes, [0; 2])),
    ],
};

/// Value that fills unused state and short messages.
const CONSTANT: u64 = 0xdead_beef_dead_beef;
/// Number of words of the state.
const WORDS: usize = 12;
/// Number of bytes of a block.
const BLOCK: usize = 8 * WORDS;

/// SpookyHash V2 with 128 bits; its first word becomes the low half.
pub(super) fn spooky_128(bytes: &[u8], seeds: [u64; 2]) -> u128 {
    let (first, second) =
        if bytes.len() < 2 * BLOCK { short(bytes, seeds) } else { long(bytes, seeds) };
    u128::from(second) << 64 | u128::from(first)
}

/// Reads `bytes`, at most eight, as the low bytes of a word.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Step of the mixing of short messages: rotates `a`, adds `b` to it, and xors it into `c`.
macro_rules! turn {
    ($a:ident, $by:literal, $b:ident, $c:ident) => {
        $a = $a.rotate_left($by).wrapping_add($b);
        $c ^= $a;
    };
}

/// Step of the end of short messages: xors `b` into `a`, rotates `b`, and adds it to `a`.
macro_rules! close {
    ($a:ident, $b:ident, $by:literal) => {
        $a ^= $b;
        $b = $b.rotate_left($by);
        $a = $a.wrapping_add($b);
    };
}

#[inline(always)]
fn short_mix([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    turn!(c, 50, d, a);
    turn!(d, 52, a, b);
    turn!(a, 30, b, c);
    turn!(b, 41, c, d);
    turn!(c, 54, d, a);
    turn!(d, 48, a, b);
    turn!(a, 38, b, c);
    turn!(b, 37, c, d);
    turn!(c, 62, d, a);
    turn!(d, 34, a, b);
    turn!(a, 5, b, c);
    turn!(b, 36, c, d);
    [a, b, c, d]
}

fn short(bytes: &[u8], seeds: [u64; 2]) -> (u64, u64) {
    let [mut a, mut b, mut c, mut d] = [seeds[0], seeds[1], CONSTANT, CONSTANT];
    let (blocks, mut rest) = bytes.as_chunks::<32>();
    for block in blocks {
        c = c.wrapping_add(word(&block[..8]));
        d = d.wrapping_add(word(&block[8..16]));
        [a, b, c, d] = short_mix([a, b, c, d]);
        a = a.wrapping_add(word(&block[16..24]));
        b = b.wrapping_add(word(&block[24..]));
    }
    if let Some((half, left)) = rest.split_first_chunk::<16>() {
        c = c.wrapping_add(word(&half[..8]));
        d = d.wrapping_add(word(&half[8..]));
        [a, b, c, d] = short_mix([a, b, c, d]);
        rest = left;
    }
    d = d.wrapping_add((bytes.len() as u64) << 56);
    if rest.is_empty() {
        c = c.wrapping_add(CONSTANT);
        d = d.wrapping_add(CONSTANT);
    } else {
        let (low, high) = rest.split_at(rest.len().min(8));
        c = c.wrapping_add(word(low));
        d = d.wrapping_add(word(high));
    }
    close!(d, c, 15);
    close!(a, d, 52);
    close!(b, a, 26);
    close!(c, b, 51);
    close!(d, c, 28);
    close!(a, d, 9);
    close!(b, a, 47);
    close!(c, b, 54);
    close!(d, c, 32);
    close!(a, d, 25);
    close!(b, a, 63);
    (a, b)
}

fn long(bytes: &[u8], seeds: [u64; 2]) -> (u64, u64) {
    let mut state = std::array::from_fn(|place| [seeds[0], seeds[1], CONSTANT][place % 3]);
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        mix(&mut state, &words(block));
    }
    let mut last = [0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    last[BLOCK - 1] = rest.len() as u8;
    for (value, word) in state.iter_mut().zip(words(&last)) {
        *value = value.wrapping_add(word);
    }
    for _ in 0..3 {
        end(&mut state);
    }
    (state[0], state[1])
}

#[inline(always)]
fn words(block: &[u8; BLOCK]) -> [u64; WORDS] {
    let (words, _) = block.as_chunks::<8>();
    std::array::from_fn(|place| u64::from_le_bytes(words[place]))
}

#[inline(always)]
fn mix(state: &mut [u64; WORDS], data: &[u64; WORDS]) {
    const TURNS: [u32; WORDS] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
    for place in 0..WORDS {
        let before = (place + WORDS - 1) % WORDS;
        state[place] = state[place].wrapping_add(data[place]);
        state[(place + 2) % WORDS] ^= state[(place + 10) % WORDS];
        state[before] ^= state[place];
        state[place] = state[place].rotate_left(TURNS[place]);
        state[before] = state[before].wrapping_add(state[(place + 1) % WORDS]);
    }
}

fn end(state: &mut [u64; WORDS]) {
    const TURNS: [u32; WORDS] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];
    for (step, turn) in TURNS.into_iter().enumerate() {
        let [sum, by, into] = [(step + 11) % WORDS, (step + 1) % WORDS, (step + 2) % WORDS];
        state[sum] = state[sum].wrapping_add(state[by]);
        state[into] ^= state[sum];
        state[by] = state[by].rotate_left(turn);
    }
}
