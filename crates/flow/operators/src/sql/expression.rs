//! Expressions with their types.

use std::any::Any;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use overside_base::panic_text;
use overside_tables::check_schema;
use sqlparser::ast::{BinaryOperator, CastKind, Expr, SelectItem, UnaryOperator};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use super::node::{Arithmetic, Comparison, Node, Typed};
use super::pattern::Pattern;
use super::{coerce, literal, refused, unsupported};
use crate::Error;

/// Maximum length of an expression's text, so that the parsed expression can be freed recursively.
const MAX_TEXT_BYTES: usize = 8 << 10;
/// Maximum nesting of expressions; `AND` and `OR` may be chained as long as the text allows.
const MAX_DEPTH: usize = 100;
/// Stack size of the thread that parses and compiles an expression, in bytes.
const STACK_BYTES: usize = 64 << 20;
/// Maximum nesting of parentheses and calls for the parser.
const MAX_PARSED_DEPTH: usize = 50;

/// Metadata that describe the columns of a table and are wrong for other columns: those of GeoParquet, pandas
/// and Spark.
const OF_COLUMNS: [&str; 3] = ["geo", "pandas", "org.apache.spark.sql.parquet.row.metadata"];

/// Keeps the rows for which an expression is true: neither false nor null.
#[derive(Debug)]
pub struct Filter {
    schema: SchemaRef,
    node: Node,
}

impl Filter {
    /// Compiles a filter. Refuses expressions that cannot be parsed or evaluated, or are not boolean.
    pub fn new(schema: SchemaRef, text: &str) -> Result<Self, Error> {
        on_large_stack(|| Self::compile(schema, text))
    }

    fn compile(schema: SchemaRef, text: &str) -> Result<Self, Error> {
        let mut parser = parser(text)?;
        let parsed = parser.parse_expr().map_err(|error| refused(error.to_string()))?;
        expect_end(&mut parser)?;
        let typed = Compiler { schema: &schema }.compile(&parsed, 0)?;
        let node = boolean(typed)?;
        Ok(Self { schema, node })
    }

    /// Returns the rows that are kept, in order.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        check_schema(&self.schema, batch.schema_ref())?;
        let chosen = self.node.evaluate(batch)?.into_array(batch.num_rows())?;
        let chosen: &BooleanArray = chosen.as_boolean();
        Ok(filter_record_batch(batch, chosen)?)
    }
}

/// Makes columns from `*`, names, and expressions `AS` names.
#[derive(Debug)]
pub struct Projection {
    input: SchemaRef,
    output: SchemaRef,
    nodes: Vec<Node>,
}

impl Projection {
    /// Compiles the part of a statement between SELECT and FROM.
    pub fn new(schema: SchemaRef, text: &str) -> Result<Self, Error> {
        on_large_stack(|| Self::compile(schema, text))
    }

    fn compile(schema: SchemaRef, text: &str) -> Result<Self, Error> {
        let mut parser = parser(text)?;
        let items = parser.parse_projection().map_err(|error| refused(error.to_string()))?;
        expect_end(&mut parser)?;
        let compiler = Compiler { schema: &schema };
        let (mut nodes, mut fields) = (Vec::new(), Vec::new());
        for item in &items {
            let (expr, name) = match item {
                SelectItem::Wildcard(_) => {
                    nodes.extend((0..schema.fields().len()).map(Node::Column));
                    fields.extend(schema.fields().iter().cloned());
                    continue;
                }
                SelectItem::UnnamedExpr(expr) => (expr, expr.to_string()),
                SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
                other => return Err(unsupported(&other.to_string())),
            };
            let typed = compiler.compile(expr, 0)?;
            fields.push(match (&typed.node, item) {
                (Node::Column(index), SelectItem::UnnamedExpr(_)) => {
                    schema.fields()[*index].clone()
                }
                (Node::Column(index), _) => Arc::new(schema.field(*index).clone().with_name(name)),
                _ => Arc::new(Field::new(name, typed.kind, true)),
            });
            nodes.push(typed.node);
        }
        let mut metadata = schema.metadata().clone();
        if fields[..] != schema.fields()[..] {
            metadata.retain(|key, _| !OF_COLUMNS.contains(&key.as_str()));
        }
        let output = Schema::new_with_metadata(fields, metadata);
        Ok(Self { output: Arc::new(output), input: schema, nodes })
    }

    /// Returns the schema of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.output
    }

    /// Returns a batch with the same number of rows, in the same order, and the projected columns.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        check_schema(&self.input, batch.schema_ref())?;
        let rows = batch.num_rows();
        let columns: Result<Vec<ArrayRef>, Error> =
            (self.nodes.iter()).map(|node| node.evaluate(batch)?.into_array(rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let output = self.output.clone();
        Ok(RecordBatch::try_new_with_options(output, columns?, &options)?)
    }
}

/// Returns the Arrow type of an SQL type's name, such as `decimal(8,2)`.
///
/// # Errors
/// [`Error::Expression`]: there is no such type.
pub fn type_named(text: &str) -> Result<DataType, Error> {
    let mut parser = parser(text)?;
    let parsed = parser.parse_data_type();
    let parsed = parsed.map_err(|error| refused(error.to_string()))?;
    expect_end(&mut parser)?;
    literal::kind(&parsed)
}

/// Parses and compiles on a thread with a large stack: the longest text may be thousands of operators deep.
fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, work)?;
        let panicked = |panic: Box<dyn Any + Send>| refused(panic_text(&*panic).into());
        thread.join().unwrap_or_else(|panic| Err(panicked(panic)))
    })
}

fn parser(text: &str) -> Result<Parser<'static>, Error> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(refused(format!(
            "it is {} bytes long; {MAX_TEXT_BYTES} are possible",
            text.len()
        )));
    }
    let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(MAX_PARSED_DEPTH);
    parser.try_with_sql(text).map_err(|error| refused(error.to_string()))
}

fn expect_end(parser: &mut Parser) -> Result<(), Error> {
    match parser.next_token().token {
        Token::EOF => Ok(()),
        other => Err(refused(format!("{other} follows where it should end"))),
    }
}

fn boolean(typed: Typed) -> Result<Node, Error> {
    match typed.kind {
        DataType::Boolean => Ok(typed.node),
        DataType::Null => {
            Ok(Node::Cast { of: Box::new(typed.node), kind: DataType::Boolean, is_safe: false })
        }
        kind => Err(refused(format!("a condition is wanted, and {kind} is none; compare it"))),
    }
}

fn condition(node: Node) -> Typed {
    Typed { node, kind: DataType::Boolean }
}

struct Compiler<'a> {
    schema: &'a Schema,
}

impl Compiler<'_> {
    fn compile(&self, expr: &Expr, depth: usize) -> Result<Typed, Error> {
        if depth > MAX_DEPTH {
            return Err(refused(format!("it is nested more than {MAX_DEPTH} deep")));
        }
        let inner = |expr: &Expr| self.compile(expr, depth + 1);
        let is_null = |expr: &Expr| Ok::<_, Error>(Node::IsNull(Box::new(inner(expr)?.node)));
        match expr {
            Expr::Nested(expr) => inner(expr),
            Expr::Identifier(name) => self.column(&name.value, name.quote_style.is_some()),
            Expr::Value(value) => literal::literal(&value.value),
            Expr::TypedString(text) => literal::typed(text),
            Expr::BinaryOp { left, op, right } => self.binary(expr, left, op, right, depth),
            Expr::UnaryOp { op, expr: of } => self.unary(expr, *op, of, depth),
            Expr::IsNull(of) => Ok(condition(is_null(of)?)),
            Expr::IsNotNull(of) => Ok(condition(not(is_null(of)?))),
            Expr::IsTrue(of) => self.is(of, true, false, depth),
            Expr::IsNotTrue(of) => self.is(of, true, true, depth),
            Expr::IsFalse(of) => self.is(of, false, false, depth),
            Expr::IsNotFalse(of) => self.is(of, false, true, depth),
            Expr::IsUnknown(of) => Ok(condition(Node::IsNull(Box::new(boolean(inner(of)?)?)))),
            Expr::IsNotUnknown(of) => {
                Ok(condition(not(Node::IsNull(Box::new(boolean(inner(of)?)?)))))
            }
            Expr::IsDistinctFrom(one, other) => {
                coerce::compare(Comparison::Distinct, inner(one)?, inner(other)?)
            }
            Expr::IsNotDistinctFrom(one, other) => {
                coerce::compare(Comparison::NotDistinct, inner(one)?, inner(other)?)
            }
            Expr::InList { expr, list, negated } => {
                let equal = |one| {
                    let equal = coerce::compare(Comparison::Equal, inner(expr)?, inner(one)?)?;
                    Ok(equal.node)
                };
                let nodes: Result<Vec<Node>, Error> = list.iter().map(equal).collect();
                Ok(condition(negated_if(*negated, Node::Or(nodes?))))
            }
            Expr::Between { expr, negated, low, high } => {
                let least = coerce::compare(Comparison::GreaterOrEqual, inner(expr)?, inner(low)?)?;
                let most = coerce::compare(Comparison::LessOrEqual, inner(expr)?, inner(high)?)?;
                let both = Node::And(vec![least.node, most.node]);
                Ok(condition(negated_if(*negated, both)))
            }
            Expr::Cast { kind, expr: of, data_type, format: None, array: false } => {
                let is_safe = matches!(kind, CastKind::TryCast | CastKind::SafeCast);
                coerce::cast_to(inner(of)?, literal::kind(data_type)?, is_safe)
            }
            Expr::Like { negated, any: false, expr: of, pattern, escape_char } => {
                let pattern = Pattern::like(pattern, escape_char.as_ref(), false)?;
                self.matches(inner(of)?, pattern, *negated)
            }
            Expr::ILike { negated, any: false, expr: of, pattern, escape_char } => {
                let pattern = Pattern::like(pattern, escape_char.as_ref(), true)?;
                self.matches(inner(of)?, pattern, *negated)
            }
            Expr::Function(function) => {
                let (of, pattern) = Pattern::function(function)?;
                self.matches(inner(of)?, pattern, false)
            }
            other => Err(unsupported(&other.to_string())),
        }
    }

    /// Finds a column by its exact name. An unquoted name is also found in another case if only one column
    /// matches.
    fn column(&self, name: &str, is_quoted: bool) -> Result<Typed, Error> {
        let fields = || self.schema.fields().iter().enumerate();
        let exact: Vec<usize> =
            (fields().filter(|(_, field)| field.name() == name)).map(|(at, _)| at).collect();
        let is_alike = |(_, field): &(usize, &Arc<Field>)| field.name().eq_ignore_ascii_case(name);
        let found = if exact.is_empty() && !is_quoted {
            fields().filter(is_alike).map(|(at, _)| at).collect()
        } else {
            exact
        };
        match found[..] {
            [at] => Ok(coerce::plain(Typed {
                node: Node::Column(at),
                kind: self.schema.field(at).data_type().clone(),
            })),
            // Other errors of the name are those of a plain column.
            _ => match crate::column(self.schema, name) {
                Err(error) => Err(error),
                Ok(_) => Err(overside_tables::Error::SameColumns {
                    name: name.to_owned(),
                    count: found.len(),
                }
                .into()),
            },
        }
    }

    fn is(&self, of: &Expr, value: bool, is_not: bool, depth: usize) -> Result<Typed, Error> {
        let of = boolean(self.compile(of, depth + 1)?)?;
        let value = Node::Literal(Arc::new(BooleanArray::from(vec![value])));
        let comparison = match is_not {
            true => Comparison::Distinct,
            false => Comparison::NotDistinct,
        };
        Ok(condition(Node::Compare(comparison, Box::new(of), Box::new(value))))
    }

    fn unary(
        &self,
        expr: &Expr,
        op: UnaryOperator,
        of: &Expr,
        depth: usize,
    ) -> Result<Typed, Error> {
        // Handled here because the least number has no positive counterpart.
        if let (UnaryOperator::Minus, Expr::Value(value)) = (op, of)
            && let Some(literal) = literal::negative(&value.value)?
        {
            return Ok(literal);
        }
        let of = self.compile(of, depth + 1)?;
        match op {
            UnaryOperator::Not => Ok(condition(not(boolean(of)?))),
            UnaryOperator::Plus if of.kind.is_numeric() => Ok(of),
            UnaryOperator::Minus if of.kind.is_numeric() => Ok(coerce::negative(of)),
            _ => Err(unsupported(&expr.to_string())),
        }
    }

    fn binary(
        &self,
        whole: &Expr,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        depth: usize,
    ) -> Result<Typed, Error> {
        use BinaryOperator as Op;
        if matches!(op, Op::And | Op::Or) {
            return self.chain(whole, op, depth);
        }
        if let Some((pattern, negated)) = Pattern::operator(op, right)? {
            return self.matches(self.compile(left, depth + 1)?, pattern, negated);
        }
        let comparison = match op {
            Op::Eq => Some(Comparison::Equal),
            Op::NotEq => Some(Comparison::NotEqual),
            Op::Lt => Some(Comparison::Less),
            Op::LtEq => Some(Comparison::LessOrEqual),
            Op::Gt => Some(Comparison::Greater),
            Op::GtEq => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        let arithmetic = match op {
            Op::Plus => Some(Arithmetic::Add),
            Op::Minus => Some(Arithmetic::Subtract),
            Op::Multiply => Some(Arithmetic::Multiply),
            Op::Divide => Some(Arithmetic::Divide),
            Op::Modulo => Some(Arithmetic::Remainder),
            _ => None,
        };
        let sides =
            || Ok::<_, Error>((self.compile(left, depth + 1)?, self.compile(right, depth + 1)?));
        match (comparison, arithmetic) {
            (Some(comparison), _) => {
                let (left, right) = sides()?;
                coerce::compare(comparison, left, right)
            }
            (_, Some(arithmetic)) => {
                let (left, right) = sides()?;
                coerce::arithmetic(arithmetic, left, right)
            }
            _ => Err(unsupported(&op.to_string())),
        }
    }

    /// Compiles `a AND b AND c`, which is parsed as `(a AND b) AND c`, without recursion for each operand.
    fn chain(&self, whole: &Expr, of: &BinaryOperator, depth: usize) -> Result<Typed, Error> {
        let (mut nodes, mut rest) = (Vec::new(), whole);
        while let Expr::BinaryOp { left, op, right } = rest
            && op == of
        {
            nodes.push(boolean(self.compile(right, depth + 1)?)?);
            rest = left;
        }
        nodes.push(boolean(self.compile(rest, depth + 1)?)?);
        nodes.reverse();
        Ok(condition(match of {
            BinaryOperator::And => Node::And(nodes),
            _ => Node::Or(nodes),
        }))
    }

    fn matches(&self, of: Typed, pattern: Pattern, negated: bool) -> Result<Typed, Error> {
        let of = coerce::text(of)?;
        Ok(condition(negated_if(negated, Node::Matches(Box::new(of), pattern))))
    }
}

fn not(node: Node) -> Node {
    Node::Not(Box::new(node))
}

fn negated_if(negated: bool, node: Node) -> Node {
    if negated { not(node) } else { node }
}
