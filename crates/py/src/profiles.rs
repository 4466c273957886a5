//! Profiles: read, checked and written.

use std::path::Path;
use std::time::Duration;

use overside_config::Error;
use overside_model::{Dimension, PARAMETERS, Profile, ProfileProvenance, Quantity, Table};
use overside_probe::memory::Kernel;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::answers::text;
use crate::{guarded, refused};

#[doc = stub!("profile_show")]
#[pyfunction]
pub(crate) fn profile_show(name: &str) -> PyResult<String> {
    guarded(|| {
        let profile = overside_model::profile(name).map_err(refused)?;
        text(&shown(&profile))
    })
}

fn shown(profile: &Profile) -> Value {
    let mut values: Vec<Value> = Vec::new();
    for (key, one) in profile.quantities() {
        values.push(of_quantity(&key, one));
    }
    for (key, sweep) in profile.sweeps() {
        values.push(json!({
            "key": key, "by": "bytes", "at": sweep.source_bytes, "value": sweep.rate,
            "unit": sweep.unit, "facts": sweep.facts, "note": sweep.note,
            "truncated": sweep.truncated,
        }));
    }
    for (name, table) in &profile.tables {
        values.push(of_table(&format!("tables.{name}"), table));
    }
    json!({
        "profile": profile,
        "values": values,
        "missing": profile.gaps(),
        "why_not_emulated": profile.why_not_emulated(),
    })
}

fn of_quantity(key: &str, one: &Quantity) -> Value {
    let interval = one.interval();
    let in_unit = |base: f64| base / one.unit.in_base();
    json!({
        "key": key,
        "low": if one.is_limit() { None } else { Some(in_unit(interval.low)) },
        "value": if one.is_limit() { None } else { Some(in_unit(interval.typ)) },
        "high": in_unit(interval.high),
        "unit": one.unit, "dimension": dimension(one.unit.dimension()),
        "base": interval.typ,
        "facts": one.facts, "citation": one.citation, "note": one.note,
    })
}

fn of_table(key: &str, one: &Table) -> Value {
    json!({
        "key": key, "by": one.by, "at": one.at, "value": one.value, "unit": one.unit,
        "dimension": dimension(one.unit.dimension()),
        "facts": one.facts, "citation": one.citation, "note": one.note,
    })
}

const fn dimension(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Size => "size",
        Dimension::Rate => "rate",
        Dimension::Time => "time",
        Dimension::Frequency => "frequency",
        Dimension::Power => "power",
        Dimension::Count => "count",
    }
}

#[doc = stub!("profile_check")]
#[pyfunction]
pub(crate) fn profile_check(path: &str) -> PyResult<String> {
    guarded(|| {
        let checked = overside_model::text_of(Path::new(path))
            .map_err(|error| vec![error])
            .and_then(|text| Profile::check(path, &text));
        let (name, problems) = match checked {
            Err(errors) => (None, errors.into_iter().map(problem).collect()),
            Ok(profile) => {
                let emulated = profile.provenance == ProfileProvenance::Emulated;
                let shared = emulated.then(|| {
                    json!({
                        "key": "provenance",
                        "problem": "its values were measured on an emulated device, so they say \
                                    nothing about a card",
                        "remedy": "do not share it; calibrate a real device",
                    })
                });
                (Some(profile.name), shared.into_iter().collect::<Vec<_>>())
            }
        };
        text(&json!({
            "file": path, "name": name, "valid": problems.is_empty(), "problems": problems,
        }))
    })
}

fn problem(error: Error) -> Value {
    let key = (!error.key.is_empty()).then_some(error.key);
    let line = error.position.map(|at| at.line);
    json!({ "key": key, "line": line, "problem": error.problem, "remedy": error.remedy })
}

#[doc = stub!("profile_toml")]
#[pyfunction]
pub(crate) fn profile_toml(form: &str) -> PyResult<String> {
    guarded(|| {
        let profile: Profile = serde_json::from_str(form).map_err(refused)?;
        let text = profile.to_toml();
        Profile::check(&format!("{}.toml", profile.name), &text).map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            refused(errors.join("\n"))
        })?;
        Ok(text)
    })
}

/// All parameters that profiles may give.
#[pyfunction]
pub(crate) fn parameters() -> PyResult<String> {
    guarded(|| {
        let all: Vec<Value> = (PARAMETERS.iter())
            .map(|one| {
                let dimensions: Vec<_> = one.dimensions.iter().map(|of| dimension(*of)).collect();
                json!({
                    "name": one.name, "dimensions": dimensions, "by": one.by,
                    "about": one.about, "measured_by": one.measured_by,
                    "otherwise": one.otherwise,
                })
            })
            .collect();
        text(&all)
    })
}

#[doc = stub!("memory_latency")]
#[pyfunction]
pub(crate) fn memory_latency(py: Python<'_>, block_bytes: usize, seconds: f64) -> PyResult<f64> {
    guarded(|| {
        let budget = budget(seconds)?;
        in_range("block_bytes", block_bytes, 128, overside_probe::memory::MAX_BYTES)?;
        py.detach(|| overside_probe::memory::latency_ns(block_bytes, budget)).map_err(refused)
    })
}

#[doc = stub!("memory_stream")]
#[pyfunction]
pub(crate) fn memory_stream(
    py: Python<'_>,
    kernel: &str,
    threads: usize,
    array_bytes: usize,
    seconds: f64,
) -> PyResult<f64> {
    guarded(|| {
        let budget = budget(seconds)?;
        in_range("threads", threads, 1, overside_probe::memory::MAX_THREADS)?;
        in_range("array_bytes", array_bytes, 4096, overside_probe::memory::MAX_BYTES)?;
        let kernel = (Kernel::ALL.into_iter())
            .find(|one| one.name() == kernel)
            .ok_or_else(|| refused("the kernels are copy, scale, add and triad"))?;
        py.detach(|| {
            overside_probe::memory::stream_bytes_per_s(kernel, threads, array_bytes, budget)
        })
        .map_err(refused)
    })
}

fn budget(seconds: f64) -> PyResult<Duration> {
    if !(0.0..=60.0).contains(&seconds) {
        return Err(refused("seconds must be 0 to 60"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn in_range(name: &str, value: usize, low: usize, high: usize) -> PyResult<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(refused(format!("{name} must be {low} to {high}, not {value}")))
}
