//! Compiled expressions.

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::pattern::Pattern;

/// Compiled expression with its type.
#[derive(Debug)]
pub(super) struct Typed {
    pub node: Node,
    pub kind: DataType,
}

/// Node of a compiled expression tree.
#[derive(Debug)]
pub(super) enum Node {
    Column(usize),
    /// Array of one row.
    Literal(ArrayRef),
    Cast {
        of: Box<Node>,
        kind: DataType,
        is_safe: bool,
    },
    Compare(Comparison, Box<Node>, Box<Node>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    Negative(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    Matches(Box<Node>, Pattern),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Distinct,
    NotDistinct,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}
