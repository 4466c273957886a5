//! Traffic that a card forwards while its DMA engine or its compression engines work.

mod series;

use std::cell::OnceCell;

use overside_config::Error;

use super::{Method, Point, Row, simulated};
use crate::contention::{self, Demand, SharedPath};
use crate::fallback::FallbackEvidence;
use crate::{
    Answer, Evaluation, EvidenceLevel, Initiator, Interval, Library, NoPrediction, Prediction,
    Values, dma, network,
};
use series::{TrafficModel, Window};

/// Frames that follow each other faster than this are equal in whole nanoseconds.
const FRAME_NS_MIN: f64 = 50.0;
/// Smallest share of a frame's time on the shared path that the bound on events allows for.
const PATH_SHARE_MIN: f64 = 0.05;
const PHASES: [&str; 3] = ["before", "during", "after"];

/// About how many events a point simulates.
pub(super) fn events(point: &Point) -> u64 {
    let Some(phase_ns) = point.number_if_set("phase") else {
        return 0;
    };
    let frame_ns = point.number("frame") / point.number("traffic") * 1e9;
    TrafficModel {
        frame_ns,
        path_ns: frame_ns * PATH_SHARE_MIN,
        load: 1.0,
        phase_ns: phase_ns as u64,
        windows: 1,
        seed: 0,
    }
    .events()
}

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let card = point.word("profile");
    let sent = Prediction::given(Interval::exactly(point.number("traffic")));
    let asked = Traffic {
        point,
        card,
        arriving: match network::port(library, card) {
            Some(port) => sent.bounded_by(&port, "the card's port"),
            None => sent,
        },
        intensity: match point.word("beside") {
            "engine" => None,
            _ => Some(point.number("intensity")),
        },
        fallback: FallbackEvidence::of(library, &[card]),
    };
    match point.number_if_set("phase") {
        None => Ok(vec![asked.closed_form()]),
        Some(phase_ns) => asked.over_time(phase_ns),
    }
}

/// A point, read.
struct Traffic<'a> {
    point: &'a Point,
    card: &'a str,
    /// The part of the sent traffic that the port lets in, in bytes a second.
    arriving: Prediction,
    /// Intensity of the DMAs, 0 to 1; `None` beside jobs of an engine.
    intensity: Option<f64>,
    fallback: FallbackEvidence,
}

impl Traffic<'_> {
    /// Returns the typical rate of the arriving traffic, in bytes a second.
    fn arriving_per_s(&self) -> f64 {
        self.arriving.interval.typ
    }

    /// The share of the sent traffic that is lost: at the port, where there is no doubt, and beside
    /// DMAs, of what the port lets in.
    fn lost(&self, intensity: f64) -> Answer {
        let arriving_share = self.arriving_per_s() / self.point.number("traffic");
        let beside = self.fallback.predict(EvidenceLevel::Application, |values| {
            let lost = contention::traffic_loss(values, self.card, intensity)?;
            let left = self.arriving_per_s() * (1.0 - lost);
            Ok(1.0 - left.min(self.shares(values, intensity)?.0) / self.arriving_per_s())
        })?;
        let of_sent = |beside: f64| 1.0 - arriving_share * (1.0 - beside.min(1.0));
        Ok(Prediction { interval: beside.interval.map(of_sent), ..beside })
    }

    /// Returns the traffic that is kept, in bytes a second, from the share that is lost.
    fn kept(&self, lost: &Answer) -> Answer {
        let sent = self.point.number("traffic");
        let lost = lost.clone()?;
        let Interval { low, typ, high } = lost.interval.map(|lost| sent * (1.0 - lost));
        Ok(Prediction {
            interval: Interval {
                low: low.min(high),
                typ,
                high: low.max(high).min(self.arriving.interval.high),
            },
            ..lost
        })
    }

    /// Returns the bytes a second that traffic and DMAs get of the link.
    fn shares(&self, values: &Values<'_>, intensity: f64) -> Evaluation<(f64, f64)> {
        let peak = dma::peak(values, self.card, Initiator::Host)?;
        let link = values.get(&dma::of(self.card, "pcie.rate"))?;
        let demand = |bytes_per_s| Demand { bytes_per_s, weight: 1.0 };
        let demands = [demand(self.arriving_per_s()), demand(peak * intensity)];
        let shares = contention::shares(link, &demands);
        Ok((shares[0], shares[1]))
    }

    fn closed_form(&self) -> Row {
        let point = self.point;
        let Some(intensity) = self.intensity else {
            let lost = 1.0 - self.arriving_per_s() / point.number("traffic");
            return Row {
                more: vec![point.given("lost", lost)],
                throughput: Some(point.metric("traffic", Ok(self.arriving.clone()))),
                notes: vec!["jobs of the engines do not cross the path of the traffic".into()],
                ..Row::default()
            };
        };
        let lost = self.lost(intensity);
        let kept = self.kept(&lost);
        let moved =
            (self.fallback).predict(EvidenceLevel::Card, |v| Ok(self.shares(v, intensity)?.1));
        Row {
            more: vec![point.metric("lost", lost), point.metric("DMA moves", moved)],
            throughput: Some(point.metric("traffic", kept)),
            bottleneck: Some(self.limit()),
            ..Row::default()
        }
    }

    /// Returns the resource that slows traffic most beside DMAs.
    fn limit(&self) -> String {
        let port = self.arriving.bottleneck.clone();
        port.unwrap_or_else(|| "waiting on the card's path to memory".into())
    }

    /// The path at typical values of its parameters.
    fn path(&self) -> Result<SharedPath, NoPrediction> {
        let typical = OnceCell::new();
        self.fallback.predict(EvidenceLevel::Application, |values| {
            // The first evaluation is the typical one.
            let path = SharedPath::of_card(values, self.card)?;
            Ok(typical.get_or_init(|| path).share)
        })?;
        typical.into_inner().ok_or_else(NoPrediction::not_evaluated)
    }

    fn over_time(&self, phase_ns: f64) -> Result<Vec<Row>, Error> {
        let point = self.point;
        let frame_ns = point.number("frame") / self.arriving_per_s() * 1e9;
        if frame_ns < FRAME_NS_MIN {
            let problem = format!("frames that short are {frame_ns:.1} ns apart at that rate");
            let allowed = format!("frames at least {FRAME_NS_MIN} ns apart: longer ones");
            return Err(Error::of_key("frame", problem, allowed));
        }
        let path = match self.path() {
            Ok(path) => path,
            Err(none) => {
                return Ok(vec![Row {
                    throughput: Some(point.metric("traffic", Err(none))),
                    ..Row::default()
                }]);
            }
        };
        let world = TrafficModel {
            frame_ns,
            // A profile may say that traffic loses more than waiting explains.
            path_ns: frame_ns * path.share.clamp(PATH_SHARE_MIN, 1.0),
            load: self.intensity.map_or(0.0, |intensity| path.load(intensity)),
            phase_ns: phase_ns as u64,
            windows: point.count("windows"),
            seed: point.count("seed"),
        };
        let windows = world.run().map_err(|error| {
            Error::of_key("phase", error.to_string(), "a shorter phase or longer frames")
        })?;
        let beside = self.intensity.map(|at| (self.kept(&self.lost(at)), self.waiting(at)));
        let rows = windows.iter().enumerate();
        Ok(rows.map(|(at, window)| self.window(&world, at, window, beside.as_ref())).collect())
    }

    /// Predicts the time of a frame on the shared path, over its whole time with nothing beside it.
    fn waiting(&self, intensity: f64) -> Answer {
        self.fallback.predict(EvidenceLevel::Application, |values| {
            let path = SharedPath::of_card(values, self.card)?;
            Ok(path.share * contention::stretch(path.load(intensity)))
        })
    }

    /// Returns one window's row. The cost of DMAs is as uncertain as `closed`, the closed forms, are.
    fn window(
        &self,
        world: &TrafficModel,
        at: usize,
        window: &Window,
        closed: Option<&(Answer, Answer)>,
    ) -> Row {
        let phase = at / world.windows as usize;
        let per_s = window.frames as f64 / world.window_ns() * 1e9;
        let bytes_per_s = (per_s * world.frame_ns / 1e9).min(1.0) * self.arriving_per_s();
        let path_ns = window.path_ns as f64 / window.frames.max(1) as f64;
        let (traffic, path) = ("traffic", "time on the shared path");
        let point = self.point;
        let (rate, time) = match closed.filter(|_| phase == 1) {
            Some((kept, waiting)) => {
                let like = |closed: &Answer, value| {
                    let closed = closed.as_ref().map_err(Clone::clone)?;
                    Ok(simulated(closed, value))
                };
                let rate = point.metric(traffic, like(kept, bytes_per_s));
                let time = point.metric(path, like(waiting, path_ns));
                (rate.at_most(self.arriving_per_s()), time)
            }
            None => (point.given(traffic, bytes_per_s), point.given(path, path_ns)),
        };
        let ms = |index: usize| (index as f64 * world.window_ns() / 100.0).round() / 1e4;
        Row {
            labels: vec![
                ("DMAs".into(), PHASES[phase].into()),
                ("ms".into(), format!("{} to {}", ms(at), ms(at + 1))),
            ],
            method: Method::Simulated,
            throughput: Some(rate),
            latency: Some(time),
            bottleneck: (phase == 1 && closed.is_some()).then(|| self.limit()),
            ..Row::default()
        }
    }
}
