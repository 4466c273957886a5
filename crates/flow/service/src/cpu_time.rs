//! CPU time of tasks, whichever threads run them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::rt::Executor;
use overside_device::threads::thread_cpu_ns;

/// The CPU time that polling some tasks took. As an executor it counts the tasks that it is given.
#[derive(Clone, Debug, Default)]
pub struct CpuTime(Arc<AtomicU64>);

impl CpuTime {
    /// Returns the CPU time since the last call and resets it, in nanoseconds. It does not include
    /// the poll that is running.
    pub fn take_ns(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }

    /// Adds the CPU time of other threads for some work here, which took `work_ns` in all, by its own account.
    pub fn add_helpers<T>(&self, work: impl FnOnce() -> (T, u64)) -> T {
        let begin_ns = thread_cpu_ns();
        let (done, work_ns) = work();
        let here_ns = thread_cpu_ns().saturating_sub(begin_ns);
        self.0.fetch_add(work_ns.saturating_sub(here_ns), Ordering::Relaxed);
        done
    }

    /// Runs a task and counts its CPU time.
    pub async fn count<F: Future>(self, task: F) -> F::Output {
        let mut task = pin!(task);
        poll_fn(|context| {
            let begin_ns = thread_cpu_ns();
            let polled = task.as_mut().poll(context);
            let spent_ns = thread_cpu_ns().saturating_sub(begin_ns);
            self.0.fetch_add(spent_ns, Ordering::Relaxed);
            polled
        })
        .await
    }
}

impl<F> Executor<F> for CpuTime
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(self.clone().count(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_of_tasks_is_counted_once_and_not_that_of_others() {
        let (counted, other) = (CpuTime::default(), CpuTime::default());
        let work = || {
            let begin_ns = thread_cpu_ns();
            while thread_cpu_ns() < begin_ns + 2_000_000 {}
        };
        let task = async {
            work();
            tokio::task::yield_now().await;
            work();
        };
        counted.clone().count(task).await;
        work();
        assert!(counted.take_ns() >= 4_000_000);
        assert_eq!((counted.take_ns(), other.take_ns()), (0, 0));
    }
}
