//! Partitions by hash. 64-bit numbers are hashed several at a time if the processor has the instructions.

use arrow_buffer::{ArrowNativeType, ToByteSlice};
use xxhash_rust::xxh3::xxh3_64;

/// Returns the partition of bytes (XXH3, 64 bits, without a seed).
pub(super) fn partition_of(bytes: &[u8], partitions: u64) -> u16 {
    (xxh3_64(bytes) % partitions) as u16
}

/// Appends the partitions of numbers, by the hash of their bytes.
pub(super) fn assign<T: ArrowNativeType>(values: &[T], partitions: u64, ids: &mut Vec<u16>) {
    if !partitions.is_power_of_two() {
        ids.extend(values.iter().map(|value| partition_of(value.to_byte_slice(), partitions)));
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512dq") {
        // SAFETY: the processor has these instructions.
        #[allow(unsafe_code)]
        return unsafe { assign_at_once(values, partitions, ids) };
    }
    assign_masked(values, partitions, ids);
}

/// Compiled with instructions that multiply eight 64-bit numbers at once, which the compiler then uses.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn assign_at_once<T: ArrowNativeType>(values: &[T], partitions: u64, ids: &mut Vec<u16>) {
    assign_masked(values, partitions, ids);
}

#[inline(always)]
fn assign_masked<T: ArrowNativeType>(values: &[T], partitions: u64, ids: &mut Vec<u16>) {
    let mask = partitions - 1;
    ids.extend(values.iter().map(|value| (xxh3_64(value.to_byte_slice()) & mask) as u16));
}

#[cfg(test)]
mod tests {
    use arrow_buffer::ToByteSlice;

    use super::{assign, partition_of};

    #[test]
    fn numbers_have_the_partitions_of_their_bytes() {
        let values: Vec<u64> = (0..999).map(|n| (n * n * n) << (n % 50)).collect();
        for partitions in [1, 2, 7, 16, 1000, 1024] {
            let mut ids = vec![9];
            assign(&values, partitions, &mut ids);
            let expected =
                values.iter().map(|value| partition_of(value.to_byte_slice(), partitions));
            assert_eq!(ids[1..], expected.collect::<Vec<_>>());
        }
    }
}
