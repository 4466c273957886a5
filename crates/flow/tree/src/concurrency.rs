//! Parallel work on several items, with results in order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use overside_base::lock;

/// Works on each item, on up to `threads` threads, and returns the results in the order of the items.
/// After an error no other item is started.
///
/// # Errors
/// The error of the first item, in order, that failed.
pub fn at_once<I, T, E>(
    items: impl IntoIterator<Item = I, IntoIter: ExactSizeIterator + Send>,
    threads: usize,
    work: impl Fn(I) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E>
where
    T: Send,
    E: Send,
{
    let items = items.into_iter();
    let count = items.len();
    let (items, done) = (Mutex::new(items.enumerate()), Mutex::new(Vec::new()));
    let has_failed = AtomicBool::new(false);
    let work = || {
        while !has_failed.load(Ordering::Relaxed) {
            let Some((index, item)) = lock(&items).next() else {
                return;
            };
            let result = work(item);
            has_failed.fetch_or(result.is_err(), Ordering::Relaxed);
            lock(&done).push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = std::mem::take(&mut *lock(&done));
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::at_once;

    #[test]
    fn results_stay_in_order_and_the_first_error_counts() {
        // Each waits for all others, so the test ends only if all run at the same time.
        let all = Barrier::new(4);
        let work = |item: usize| {
            all.wait();
            match item {
                1 | 2 => Err(item),
                other => Ok(other),
            }
        };
        assert_eq!(at_once(vec![0, 3, 4, 5], 4, work), Ok(vec![0, 3, 4, 5]));
        assert_eq!(at_once(vec![0, 2, 1, 5], 8, work), Err(2));
        let one = |item: usize| Err::<(), usize>(item);
        assert_eq!(at_once(vec![7, 8], 1, one), Err(7));
        assert_eq!(at_once(Vec::new(), 3, one), Ok(Vec::new()));
    }
}
