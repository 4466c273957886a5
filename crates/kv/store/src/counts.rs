//! Counts that threads make apart and that are added up.

/// A type of counts, each with its name in `INFO` or among the metrics, and what it is.
#[macro_export]
macro_rules! counts {
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($field:ident: $shown:literal = $help:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name {
            $(#[doc = $help] pub $field: u64,)*
        }

        impl $name {
            /// Adds those of another thread.
            $vis fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// Names, what each is, and the counts.
            $vis fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
                [$(($shown, $help, self.$field)),*].into_iter()
            }

            /// The counts, in the same order.
            #[allow(dead_code, reason = "not all counts are read from elsewhere")]
            $vis fn counts_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                [$(&mut self.$field),*].into_iter()
            }
        }
    };
}
