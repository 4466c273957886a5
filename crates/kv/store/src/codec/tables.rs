//! Encodings that follow from tables: of types with variants, and of plain structs.
//!
//! An operand is written and read by the methods of [`Writer`] and [`Reader`] that have the name of its encoding.

use super::DecodeError;
use super::bytes::{Reader, Writer};

/// A type with variants: a number in one byte, and the operands of the variant.
pub(super) trait Numbered<'a>: Sized {
    fn number(&self) -> u8;
    fn write_operands(&self, out: &mut Writer<'_>);
    /// Returns `None` if no variant has the number.
    fn read(number: u8, from: &mut Reader<'a>) -> Result<Option<Self>, DecodeError>;
}

impl Writer<'_> {
    pub(super) fn numbered<'a>(&mut self, value: &impl Numbered<'a>) {
        self.0.push(value.number());
        value.write_operands(self);
    }
}

impl<'a> Reader<'a> {
    pub(super) fn numbered<T: Numbered<'a>>(&mut self) -> Result<T, DecodeError> {
        let number = self.byte()?;
        T::read(number, self)?.ok_or(DecodeError::InvalidOperand)
    }
}

/// Implements [`Numbered`] for a type that a table like that of [operations](crate::operations) describes.
macro_rules! numbered {
    (
        $(#[$meta:meta])*
        $(pub)? enum $type:ident $(<$life:lifetime>)? { $(
            $(#[$doc:meta])*
            $number:literal $name:ident
            $(( $($only:ident $(: $only_type:ty)? = $only_codec:ident),* ))?
            $({ $(
                $( $(#[$field_doc:meta])* $field:ident $(: $field_type:ty)? = $codec:ident )?
                $([ $( $(#[$bit_doc:meta])* $bit:ident ),* $(,)? ])?
            ),* })?
            $(=> $access:ident $(if $effect:ident)?)?;
        )* }
    ) => {
        impl $(<$life>)? $type $(<$life>)? {
            /// Returns the number of the variant in its encoding.
            #[inline]
            pub fn number(&self) -> u8 {
                match self {
                    $(Self::$name { .. } => $number,)*
                }
            }
        }

        #[allow(unused_variables, reason = "variants without operands")]
        impl<'a> $crate::codec::tables::Numbered<'a> for $type $(<$life>)? {
            #[inline]
            fn number(&self) -> u8 { Self::number(self) }

            #[inline]
            fn write_operands(&self, out: &mut $crate::codec::bytes::Writer<'_>) {
                match self { $(
                    Self::$name
                    $(( $($only),* ))?
                    $({ $( $($field,)? $($($bit,)*)? )* })? => {
                        $($(out.$only_codec($only);)*)?
                        $($( $(out.$codec($field);)? $(out.bools(&[$(*$bit),*]);)? )*)?
                    }
                )* }
            }

            #[inline]
            fn read(
                number: u8,
                from: &mut $crate::codec::bytes::Reader<'a>,
            ) -> Result<Option<Self>, $crate::codec::DecodeError> {
                Ok(Some(match number {
                    $($number => {
                        $($(let $only = from.$only_codec()?;)*)?
                        $($( $(let $field = from.$codec()?;)? $(let [$($bit),*] = from.bools()?;)? )*)?
                        Self::$name
                        $(( $($only),* ))?
                        $({ $( $($field,)? $($($bit,)*)? )* })?
                    })*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

/// Gives the reader and the writer a method for each struct: its fields in this order, bits in a byte.
macro_rules! structs {
    ($(
        $method:ident: $type:ident $(<$life:lifetime>)? { $(
            $( $field:ident = $codec:ident )? $([ $($bit:ident),* ])?
        ),* }
    )*) => {
        impl $crate::codec::bytes::Writer<'_> { $(
            #[inline]
            fn $method(&mut self, value: &$type) {
                $( $(self.$codec(&value.$field);)? $(self.bools(&[$(value.$bit),*]);)? )*
            }
        )* }

        impl<'a> $crate::codec::bytes::Reader<'a> { $(
            #[inline]
            fn $method(&mut self) -> Result<$type $(<$life>)?, $crate::codec::DecodeError> {
                $( $(let $field = self.$codec()?;)? $(let [$($bit),*] = self.bools()?;)? )*
                Ok($type { $( $($field,)? $($($bit,)*)? )* })
            }
        )* }
    };
}

pub(super) use {numbered, structs};
