//! Ships off a coast: most lie in harbors, the others sail between them. The columns are those of AIS records
//! published by NOAA's MarineCadastre.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampSecondArray,
};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use overside_base::Random;

/// Time of the first snapshot: 2022-01-03T00:00:00 UTC.
const START_S: i64 = 1_641_168_000;
/// Time between snapshots; ships report at different seconds of each minute.
const STEP_S: i64 = 60;
const HARBORS: usize = 24;
/// Country codes at the beginning of a number (ITU MID), and the number of ships in 16 with each.
const COUNTRIES: [(i32, u64); 5] = [(338, 6), (366, 4), (367, 4), (316, 1), (636, 1)];
const SYLLABLES: [&str; 16] = [
    "AL", "BO", "CAR", "DEL", "EL", "FIN", "GRA", "HO", "IS", "LIN", "MAR", "NOR", "PE", "RO",
    "SEA", "TOR",
];

pub(super) fn schema() -> SchemaRef {
    use DataType::{Float64, Int32, Int64, Utf8};
    let columns = [
        ("MMSI", Int32),
        ("BaseDateTime", Utf8),
        ("LAT", Float64),
        ("LON", Float64),
        ("SOG", Float64),
        ("COG", Float64),
        ("Heading", Int32),
        ("VesselName", Utf8),
        ("IMO", Utf8),
        ("CallSign", Utf8),
        ("VesselType", Int64),
        ("Status", Int64),
        ("Length", Int64),
        ("Width", Int64),
        ("Draft", Float64),
        ("Cargo", Int64),
        ("TransceiverClass", Utf8),
    ];
    let fields = columns.map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(fields.to_vec()))
}

struct Ship {
    mmsi: i32,
    name: String,
    imo: String,
    call_sign: String,
    kind: i64,
    length: Option<i64>,
    width: Option<i64>,
    draft: Option<f64>,
    class: &'static str,
    second: i64,
    moves: bool,
    latitude: f64,
    longitude: f64,
    knots: f64,
    course: f64,
}

pub(super) struct Fleet {
    ships: Vec<Ship>,
    random: Random,
    step: i64,
}

impl Fleet {
    pub(super) fn new(objects: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let harbors: Vec<(f64, f64)> = (0..HARBORS)
            .map(|_| (25.0 + 24.0 * random.uniform(), -125.0 + 55.0 * random.uniform()))
            .collect();
        let mut numbers = std::collections::HashSet::new();
        let ships = (0..objects)
            .map(|_| {
                let mmsi = loop {
                    let number = number(&mut random);
                    if numbers.insert(number) {
                        break number;
                    }
                };
                ship(mmsi, harbors[random.below(HARBORS as u64) as usize], &mut random)
            })
            .collect();
        Self { ships, random, step: 0 }
    }

    fn advance(&mut self) {
        for ship in &mut self.ships {
            if ship.moves {
                ship.course = (ship.course + 4.0 * self.random.uniform() - 2.0).rem_euclid(360.0);
                let (sine, cosine) = ship.course.to_radians().sin_cos();
                // A knot is one minute of latitude per hour.
                let degrees = ship.knots * STEP_S as f64 / 3600.0 / 60.0;
                let across = degrees * sine / ship.latitude.to_radians().cos();
                ship.latitude = (ship.latitude + degrees * cosine).clamp(-80.0, 80.0);
                ship.longitude = (ship.longitude + across + 180.0).rem_euclid(360.0) - 180.0;
            }
            ship.second = self.random.below(STEP_S as u64) as i64;
        }
        self.step += 1;
        self.ships.sort_by_key(|ship| ship.second);
    }
}

impl Iterator for Fleet {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        self.advance();
        let begin = START_S + (self.step - 1) * STEP_S;
        let texts = |of: &dyn Fn(&Ship) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(self.ships.iter().map(of)))
        };
        let floats = |of: &dyn Fn(&Ship) -> Option<f64>| -> ArrayRef {
            Arc::new(self.ships.iter().map(of).collect::<Float64Array>())
        };
        let whole = |of: &dyn Fn(&Ship) -> Option<i64>| -> ArrayRef {
            Arc::new(self.ships.iter().map(of).collect::<Int64Array>())
        };
        let short = |of: &dyn Fn(&Ship) -> i32| -> ArrayRef {
            Arc::new(Int32Array::from_iter_values(self.ships.iter().map(of)))
        };
        let times = self.ships.iter().map(|ship| begin + ship.second);
        let columns = vec![
            short(&|ship| ship.mmsi),
            cast(&TimestampSecondArray::from_iter_values(times), &DataType::Utf8).ok()?,
            floats(&|ship| Some(rounded(ship.latitude, 5))),
            floats(&|ship| Some(rounded(ship.longitude, 5))),
            floats(&|ship| Some(if ship.moves { rounded(ship.knots, 1) } else { 0.0 })),
            floats(&|ship| Some(rounded(ship.course, 1))),
            short(&|ship| if ship.moves { ship.course as i32 } else { 511 }),
            texts(&|ship| ship.name.clone()),
            texts(&|ship| ship.imo.clone()),
            texts(&|ship| ship.call_sign.clone()),
            whole(&|ship| Some(ship.kind)),
            whole(&|ship| Some(if ship.moves { 0 } else { 5 })),
            whole(&|ship| ship.length),
            whole(&|ship| ship.width),
            floats(&|ship| ship.draft),
            whole(&|ship| Some(ship.kind)),
            texts(&|ship| ship.class.into()),
        ];
        RecordBatch::try_new(schema(), columns).ok()
    }
}

/// Draws a ship's number. Numbers are assigned in blocks: most end in a zero, so the low bits are as uneven
/// as in real ones.
fn number(random: &mut Random) -> i32 {
    let mut share = random.below(16);
    let country = COUNTRIES.iter().find(|(_, ships)| {
        let is_it = share < *ships;
        share = share.saturating_sub(*ships);
        is_it
    });
    let country = country.map_or(338, |(country, _)| *country);
    let rest = random.below(1_000_000) as i32;
    let rest = if random.chance(0.6) { rest / 10 * 10 } else { rest };
    country * 1_000_000 + rest
}

fn ship(mmsi: i32, harbor: (f64, f64), random: &mut Random) -> Ship {
    let is_large = random.chance(0.6);
    let mut near = |spread: f64| spread * (random.uniform() - 0.5);
    let (latitude, longitude) = (harbor.0 + near(0.4), harbor.1 + near(0.4));
    let moves = random.chance(0.3);
    let name: String = (0..1 + random.below(3))
        .map(|_| SYLLABLES[random.below(SYLLABLES.len() as u64) as usize])
        .collect();
    let length = 12 + random.exponential(if is_large { 90.0 } else { 8.0 }) as i64;
    Ship {
        mmsi,
        name,
        imo: match is_large {
            true => format!("IMO{}", 9_000_000 + random.below(900_000)),
            false => String::new(),
        },
        call_sign: format!(
            "W{}{:04}",
            (b'A' + random.below(26) as u8) as char,
            random.below(10_000)
        ),
        kind: [30, 31, 37, 52, 60, 70, 80][random.below(7) as usize],
        length: random.chance(0.8).then_some(length),
        width: random.chance(0.7).then_some(3 + length / 7),
        draft: is_large.then(|| rounded(2.0 + length as f64 / 30.0, 1)),
        class: if is_large { "A" } else { "B" },
        second: 0,
        moves,
        latitude,
        longitude,
        knots: 2.0 + random.exponential(6.0),
        course: 360.0 * random.uniform(),
    }
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (value * scale).round() / scale
}
