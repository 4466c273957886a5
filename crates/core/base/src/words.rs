//! Enumerations whose values are words.

/// Gives an enumeration without fields a word for each value: `ALL`, `name` and `Display`. With the beginning of the
/// message for other texts also `FromStr`, whose error lists the words.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Way {
///     Up,
///     Down,
/// }
/// overside_base::words! { Way, "there is no way"; Up "up", Down "down" }
/// assert_eq!((Way::Up.to_string(), "down".parse()), ("up".to_owned(), Ok(Way::Down)));
/// let error = "left".parse::<Way>().unwrap_err();
/// assert_eq!(error, "there is no way \"left\"; there are: up, down");
/// ```
#[macro_export]
macro_rules! words {
    ($kind:ident; $($value:ident $word:literal),+ $(,)?) => {
        impl $kind {
            /// All values.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// Returns the word for the value.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
    ($kind:ident, $unknown:literal; $($value:ident $word:literal),+ $(,)?) => {
        $crate::words! { $kind; $($value $word),+ }

        impl std::str::FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let known = || [$($word),+].join(", ");
                (Self::ALL.into_iter().find(|one| one.name() == text))
                    .ok_or_else(|| format!("{} {text:?}; there are: {}", $unknown, known()))
            }
        }
    };
}
