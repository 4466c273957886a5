//! Engines around another engine: the methods that they forward to it.

/// In an implementation of [`ProcessingEngine`](crate::ProcessingEngine): these methods are those of a field.
///
/// ```
/// use overside_kv_store::{Answer, ProcessingEngine, Request, Store, forward_to};
///
/// struct Counting {
///     store: Store,
///     batches: u64,
/// }
///
/// impl ProcessingEngine for Counting {
///     forward_to!(store: execute_transaction, scan, expire_some, flush, statistics);
///
///     fn execute(
///         &mut self,
///         batch: &[Request<'_>],
///         now_ms: u64,
///         answers: &mut dyn FnMut(usize, Answer<'_>),
///     ) {
///         self.batches += 1;
///         self.store.execute(batch, now_ms, answers);
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_to {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_method!($field, $method);)+
    };
}

/// One method of [`forward_to`].
#[doc(hidden)]
#[macro_export]
macro_rules! forward_method {
    ($field:ident, execute) => {
        #[inline]
        fn execute(
            &mut self,
            batch: &[$crate::Request<'_>],
            now_ms: u64,
            answers: &mut dyn FnMut(usize, $crate::Answer<'_>),
        ) {
            self.$field.execute(batch, now_ms, answers);
        }
    };
    ($field:ident, execute_transaction) => {
        fn execute_transaction(
            &mut self,
            transaction: &$crate::Transaction<'_>,
            now_ms: u64,
            answers: &mut dyn FnMut(usize, $crate::Answer<'_>),
        ) -> bool {
            (self.$field).execute_transaction(transaction, now_ms, answers)
        }
    };
    ($field:ident, scan) => {
        fn scan(
            &mut self,
            position: $crate::ScanPosition,
            count: usize,
            now_ms: u64,
            keys: &mut dyn FnMut(&[u8], $crate::Metadata),
        ) -> Result<$crate::ScanPosition, $crate::Refusal> {
            self.$field.scan(position, count, now_ms, keys)
        }
    };
    ($field:ident, expire_some) => {
        fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
            self.$field.expire_some(now_ms, buckets)
        }
    };
    ($field:ident, flush) => {
        fn flush(&mut self) -> Result<(), $crate::Refusal> {
            self.$field.flush()
        }
    };
    ($field:ident, statistics) => {
        fn statistics(&self) -> $crate::Statistics {
            self.$field.statistics()
        }
    };
    ($field:ident, refresh) => {
        fn refresh(&mut self) {
            self.$field.refresh();
        }
    };
    ($field:ident, partitions) => {
        fn partitions(&self) -> usize {
            self.$field.partitions()
        }
    };
    ($field:ident, tick) => {
        fn tick(&mut self, now_ms: u64) -> bool {
            self.$field.tick(now_ms)
        }
    };
    ($field:ident, save) => {
        fn save(&mut self, in_background: bool) -> Result<(), String> {
            self.$field.save(in_background)
        }
    };
    ($field:ident, last_save_s) => {
        fn last_save_s(&self) -> u64 {
            self.$field.last_save_s()
        }
    };
    ($field:ident, info) => {
        fn info(&self) -> Vec<(String, String)> {
            self.$field.info()
        }
    };
    ($field:ident, parameters) => {
        fn parameters(&self) -> Vec<(&'static str, String)> {
            self.$field.parameters()
        }
    };
    ($field:ident, finish) => {
        fn finish(&mut self) -> ::std::io::Result<()> {
            self.$field.finish()
        }
    };
}
