//! What is asked for, judged.

use crate::services::list;
use crate::services::status::invalid;
use std::time::Duration;
use tonic::Status;
use vswitch_control::switch::capture::CaptureSpec;
use vswitch_dataplane::capture::{Point, SNAPLEN_MAX};
use vswitch_dataplane::port::FieldError;
use vswitch_flow::text::{NoNames, parse_match};
use vswitch_proto::v1;

/// Packets of a capture that does not say how many.
const COUNT: u64 = 1000;
const COUNT_MAX: u64 = 100_000_000;

/// Seconds of a capture that does not say how long.
const SECONDS: u32 = 10;
/// A capture that was forgotten ends by itself.
const SECONDS_MAX: u32 = 3600;

/// When a capture ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Packets.
    pub(super) count: u64,
    /// Time.
    pub(super) time: Duration,
}

/// The limits of a request.
pub(super) fn limits(request: &v1::CaptureRequest) -> Result<Limits, Status> {
    let mut errors = Vec::new();
    let snaplen = u64::from(request.snaplen);
    let values = [
        ("count", request.count, COUNT_MAX),
        ("seconds", request.seconds.into(), SECONDS_MAX.into()),
        ("snaplen", snaplen, SNAPLEN_MAX as u64),
    ];
    for (field, value, max) in values {
        if value > max {
            errors.push(FieldError::new(field, format!("{value} is out of range"), format!("use 1 to {max}")));
        }
    }
    if !errors.is_empty() {
        return Err(invalid(&errors));
    }
    let given = |value: u64, default: u64| if value == 0 { default } else { value };
    let seconds = given(request.seconds.into(), SECONDS.into());
    Ok(Limits { count: given(request.count, COUNT), time: Duration::from_secs(seconds) })
}

/// What is to be captured.
pub(super) fn spec(request: &v1::CaptureRequest) -> Result<CaptureSpec, Status> {
    let mut points = Vec::new();
    for value in &request.points {
        match v1::CapturePoint::try_from(*value) {
            Ok(v1::CapturePoint::Rx) => points.push(Point::Rx),
            Ok(v1::CapturePoint::Tx) => points.push(Point::Tx),
            Ok(v1::CapturePoint::Drop) => points.push(Point::Drop),
            Ok(v1::CapturePoint::Unspecified) | Err(_) => {
                let problem = format!("{value} is not known");
                return Err(invalid(&[FieldError::new("points", problem, "use 1 (rx), 2 (tx) or 3 (drop)")]));
            }
        }
    }
    points.sort_unstable();
    points.dedup();
    if points.is_empty() {
        points.extend([Point::Rx, Point::Tx]);
    }
    let matching = if request.r#match.is_empty() {
        None
    } else {
        let parsed = parse_match(&request.r#match, &NoNames).map_err(|error| list::wrong("match", &error))?;
        Some(parsed.value)
    };
    let snaplen = if request.snaplen == 0 { SNAPLEN_MAX } else { request.snaplen as usize };
    Ok(CaptureSpec { bridge: request.bridge.clone(), ports: request.ports.clone(), points, matching, snaplen })
}
