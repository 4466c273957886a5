//! Parquet's logical types that no Arrow type stands for: on a field of Arrow they are an extension type's name, or
//! a key of its metadata, and a writer makes the logical type of that again.
//!
//! | Parquet | field of Arrow |
//! |---|---|
//! | UUID, JSON | `arrow.uuid`, `arrow.json` |
//! | GEOMETRY, GEOGRAPHY | `geoarrow.wkb` |
//! | VARIANT | `arrow.parquet.variant` |
//! | BSON, ENUM | metadata `PARQUET:logical_type` |
//! | TIME that is adjusted to UTC | metadata `adjusted_to_utc`, which Arrow's writer reads |
//! | INTERVAL | `interval[month_day_nano]`, stored as 12 bytes |

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{ConvertedType, EdgeInterpolationAlgorithm, LogicalType, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, ParquetMetaData};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type, TypePtr};
use serde_json::{Value, json};

use crate::types::{INTERVAL, with_type};

const NAME: &str = "ARROW:extension:name";
const METADATA: &str = "ARROW:extension:metadata";
const OWN: &str = "PARQUET:logical_type";
const TO_UTC: &str = "adjusted_to_utc";
/// Coordinates of a geometry that names none (Parquet's default), and the name of unknown ones.
const DEFAULT_COORDINATES: &str = "OGC:CRS84";
const UNKNOWN_COORDINATES: &str = "srid:0";

const EDGES: [(EdgeInterpolationAlgorithm, &str); 5] = [
    (EdgeInterpolationAlgorithm::SPHERICAL, "spherical"),
    (EdgeInterpolationAlgorithm::VINCENTY, "vincenty"),
    (EdgeInterpolationAlgorithm::THOMAS, "thomas"),
    (EdgeInterpolationAlgorithm::ANDOYER, "andoyer"),
    (EdgeInterpolationAlgorithm::KARNEY, "karney"),
];

/// The metadata with INTERVAL as plain bytes: Arrow's reader leaves out the months of an interval.
pub(super) fn intervals_as_bytes(
    metadata: &ParquetMetaData,
) -> Result<ParquetMetaData, ParquetError> {
    let file = metadata.file_metadata();
    if !file.schema_descr().columns().iter().any(|column| is_interval(column)) {
        return Ok(metadata.clone());
    }
    let root = rebuilt(&file.schema_descr().root_schema_ptr(), &mut |kind| {
        let is_interval = kind.get_basic_info().converted_type() == ConvertedType::INTERVAL;
        is_interval.then_some((None, ConvertedType::NONE))
    })?;
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        Arc::new(SchemaDescriptor::new(root)),
        file.column_orders().cloned(),
    );
    Ok(ParquetMetaData::new(file, metadata.row_groups().to_vec()))
}

fn is_interval(column: &ColumnDescriptor) -> bool {
    column.converted_type() == ConvertedType::INTERVAL
}

/// Replaces annotations of a type by those that `annotation` returns, groups before their fields.
fn rebuilt(
    kind: &TypePtr,
    annotation: &mut impl FnMut(&Type) -> Option<(Option<LogicalType>, ConvertedType)>,
) -> Result<TypePtr, ParquetError> {
    let (new, info) = (annotation(kind), kind.get_basic_info());
    let id = info.has_id().then(|| info.id());
    let is_new = new.is_some();
    let (logical, converted) =
        new.unwrap_or_else(|| (info.logical_type_ref().cloned(), info.converted_type()));
    match &**kind {
        Type::PrimitiveType { physical_type, type_length, scale, precision, .. } => {
            if !is_new {
                return Ok(TypePtr::clone(kind));
            }
            let built = Type::primitive_type_builder(info.name(), *physical_type)
                .with_repetition(info.repetition())
                .with_logical_type(logical)
                .with_converted_type(converted)
                .with_length(*type_length)
                .with_scale(*scale)
                .with_precision(*precision)
                .with_id(id);
            Ok(Arc::new(built.build()?))
        }
        Type::GroupType { fields, .. } => {
            let fields = fields.iter().map(|field| rebuilt(field, annotation));
            let mut built = Type::group_type_builder(info.name())
                .with_fields(fields.collect::<Result<_, _>>()?)
                .with_logical_type(logical)
                .with_converted_type(converted)
                .with_id(id);
            if info.has_repetition() {
                built = built.with_repetition(info.repetition());
            }
            Ok(Arc::new(built.build()?))
        }
    }
}

/// The schema of Arrow's reader with what it leaves out of a file's.
pub(super) fn declared(schema: &Schema, file: &SchemaDescriptor) -> SchemaRef {
    let variant = |field| with_metadata(field, NAME, "arrow.parquet.variant");
    walked(schema, file, &leaf_field, &variant)
}

/// The schema of Arrow's reader with another unit of times in INT96.
pub(super) fn with_int96_as(schema: &Schema, file: &SchemaDescriptor, unit: TimeUnit) -> SchemaRef {
    let leaf = |field: FieldRef, column: &ColumnDescriptor| match field.data_type() {
        DataType::Timestamp(_, zone) if column.physical_type() == Physical::INT96 => {
            let kind = DataType::Timestamp(unit, zone.clone());
            with_type(&field, kind)
        }
        _ => field,
    };
    walked(schema, file, &leaf, &|variant| variant)
}

/// A walk over the fields of Arrow beside the file's leaves, which have the same order.
struct Walk<'a> {
    columns: std::slice::Iter<'a, Arc<ColumnDescriptor>>,
    root: &'a Type,
    leaf: &'a dyn Fn(FieldRef, &ColumnDescriptor) -> FieldRef,
    variant: &'a dyn Fn(FieldRef) -> FieldRef,
}

fn walked(
    schema: &Schema,
    file: &SchemaDescriptor,
    leaf: &dyn Fn(FieldRef, &ColumnDescriptor) -> FieldRef,
    variant: &dyn Fn(FieldRef) -> FieldRef,
) -> SchemaRef {
    let mut walk = Walk { columns: file.columns().iter(), root: file.root_schema(), leaf, variant };
    let fields: Vec<_> = schema.fields().iter().map(|field| walk.field(field)).collect();
    let metadata = schema.metadata().clone();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

impl Walk<'_> {
    fn field(&mut self, field: &FieldRef) -> FieldRef {
        let kind = match field.data_type() {
            DataType::List(child) => DataType::List(self.field(child)),
            DataType::LargeList(child) => DataType::LargeList(self.field(child)),
            DataType::ListView(child) => DataType::ListView(self.field(child)),
            DataType::LargeListView(child) => DataType::LargeListView(self.field(child)),
            DataType::FixedSizeList(child, len) => DataType::FixedSizeList(self.field(child), *len),
            DataType::Map(child, is_sorted) => DataType::Map(self.field(child), *is_sorted),
            DataType::Struct(fields) => {
                let is_variant = self.is_variant(field.name());
                let fields = fields.iter().map(|field| self.field(field));
                let field = with_type(field, DataType::Struct(fields.collect()));
                return match is_variant {
                    true => (self.variant)(field),
                    false => field,
                };
            }
            _ => {
                return match self.columns.next() {
                    Some(column) => (self.leaf)(FieldRef::clone(field), column),
                    None => FieldRef::clone(field),
                };
            }
        };
        with_type(field, kind)
    }

    /// `true` if the next leaf is within a VARIANT of that name.
    fn is_variant(&self, name: &str) -> bool {
        let leaf = self.columns.as_slice().first();
        let (mut group, parts) = (self.root, leaf.map_or(&[][..], |leaf| leaf.path().parts()));
        parts.iter().any(|part| {
            let next = group.get_fields().iter().find(|field| field.name() == part);
            group = next.filter(|next| next.is_group()).map_or(group, |next| next);
            let logical = group.get_basic_info().logical_type_ref();
            group.name() == name && matches!(logical, Some(LogicalType::Variant(_)))
        })
    }
}

fn with_metadata(field: FieldRef, key: &str, value: &str) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.entry(key.into()).or_insert_with(|| value.into());
    Arc::new(Field::clone(&field).with_metadata(metadata))
}

/// The field of a column with the type, extension or metadata that stands for its logical type.
fn leaf_field(field: FieldRef, column: &ColumnDescriptor) -> FieldRef {
    if is_interval(column) && *field.data_type() == INTERVAL {
        return with_type(&field, DataType::Interval(IntervalUnit::MonthDayNano));
    }
    if field.metadata().contains_key(NAME) {
        return field;
    }
    let geometry = |field, crs: &Option<String>, edges| {
        let more = geometry_metadata(crs.as_deref(), edges);
        with_metadata(with_metadata(field, NAME, "geoarrow.wkb"), METADATA, &more)
    };
    let info = column.self_type().get_basic_info();
    match (info.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Uuid), _) => with_metadata(field, NAME, "arrow.uuid"),
        (Some(LogicalType::Geometry(of)), _) => geometry(field, &of.crs, None),
        (Some(LogicalType::Geography(of)), _) => {
            geometry(field, &of.crs, Some(of.algorithm.unwrap_or_default()))
        }
        (Some(LogicalType::Time(time)), _) if time.is_adjusted_to_u_t_c => {
            with_metadata(field, TO_UTC, "true")
        }
        (_, ConvertedType::JSON) => with_metadata(field, NAME, "arrow.json"),
        (_, ConvertedType::BSON) => with_metadata(field, OWN, "BSON"),
        (_, ConvertedType::ENUM) => with_metadata(field, OWN, "ENUM"),
        _ => field,
    }
}

/// Metadata of `geoarrow.wkb`. Coordinates are a name or, in PROJJSON, an object.
fn geometry_metadata(crs: Option<&str>, edges: Option<EdgeInterpolationAlgorithm>) -> String {
    let mut more = serde_json::Map::new();
    match crs {
        None => drop(more.insert("crs".into(), json!(DEFAULT_COORDINATES))),
        Some(UNKNOWN_COORDINATES) => {}
        Some(text) => {
            let object = serde_json::from_str::<Value>(text).ok();
            let object = object.filter(Value::is_object);
            more.insert("crs".into(), object.unwrap_or_else(|| json!(text)));
        }
    }
    if let Some((_, name)) = EDGES.iter().find(|(edge, _)| Some(*edge) == edges) {
        more.insert("edges".into(), json!(name));
    }
    Value::Object(more).to_string()
}

/// The logical type that a field of Arrow names, if its values can have it.
fn logical_type(field: &Field) -> Option<(Option<LogicalType>, ConvertedType)> {
    let of =
        |logical: LogicalType| Some((Some(logical.clone()), ConvertedType::from(Some(logical))));
    let kind = match field.data_type() {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    };
    let metadata: &HashMap<String, String> = field.metadata();
    let name = |key: &str| metadata.get(key).map_or("", String::as_str);
    match (name(NAME), kind) {
        (_, DataType::Interval(_)) => Some((None, ConvertedType::INTERVAL)),
        ("arrow.uuid", DataType::FixedSizeBinary(16)) => of(LogicalType::Uuid),
        ("arrow.json", kind) if kind.is_string() => of(LogicalType::Json),
        ("geoarrow.wkb", kind) if kind.is_binary() => {
            let more: Value = serde_json::from_str(name(METADATA)).unwrap_or_default();
            let crs = match &more["crs"] {
                Value::Null => Some(UNKNOWN_COORDINATES.to_owned()),
                Value::String(crs) if crs == DEFAULT_COORDINATES => None,
                Value::String(crs) => Some(crs.clone()),
                other => Some(other.to_string()),
            };
            match EDGES.iter().find(|(_, name)| more["edges"] == **name) {
                Some((edges, _)) => of(LogicalType::geography(crs, Some(*edges))),
                None => of(LogicalType::geometry(crs)),
            }
        }
        ("arrow.parquet.variant", DataType::Struct(_)) => of(LogicalType::variant(Some(1))),
        (_, kind) if kind.is_binary() => match name(OWN) {
            "BSON" => of(LogicalType::Bson),
            "ENUM" => of(LogicalType::Enum),
            _ => None,
        },
        _ => None,
    }
}

/// The Parquet schema of a table; `None` if that which Arrow's writer makes of `stored` has all logical types.
pub(crate) fn parquet_schema(
    schema: &Schema,
    stored: &Schema,
) -> Result<Option<SchemaDescriptor>, ParquetError> {
    // By the fields' order, groups before their fields, the wrappers of lists and maps left out.
    let mut annotations = Vec::new();
    for field in schema.fields() {
        annotate(field, &mut annotations);
    }
    if annotations.iter().all(Option::is_none) {
        return Ok(None);
    }
    let plain = ArrowSchemaConverter::new().convert(stored)?;
    let mut annotations = annotations.into_iter();
    let mut is_root = true;
    let root = rebuilt(&plain.root_schema_ptr(), &mut |kind| {
        let info = kind.get_basic_info();
        let is_wrapper = kind.is_group()
            && (info.logical_type_ref().is_some()
                || (info.has_repetition()
                    && info.repetition() == parquet::basic::Repetition::REPEATED));
        if std::mem::take(&mut is_root) || is_wrapper {
            return None;
        }
        annotations.next().flatten()
    })?;
    Ok(Some(SchemaDescriptor::new(root)))
}

fn annotate(field: &Field, found: &mut Vec<Option<(Option<LogicalType>, ConvertedType)>>) {
    match field.data_type() {
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _) => annotate(child, found),
        DataType::Map(entries, _) => {
            if let DataType::Struct(fields) = entries.data_type() {
                fields.iter().for_each(|field| annotate(field, found));
            }
        }
        DataType::Struct(fields) => {
            found.push(logical_type(field));
            fields.iter().for_each(|field| annotate(field, found));
        }
        _ => found.push(logical_type(field)),
    }
}
