//! Options of zones.

use super::filter;
use crate::services::status::invalid;
use tonic::Status;
use vswitch_conntrack::Tracker;
use vswitch_dataplane::port::FieldError;
use vswitch_proto::v1;

/// Options of these zones, or of all that have one on.
pub(super) fn of(tracker: &Tracker, zones: Vec<u16>) -> v1::GetZoneOptionsResponse {
    let zones = if zones.is_empty() { tracker.zones_established_after_answer() } else { zones };
    let options = |zone: &u16| v1::ZoneOptions {
        zone: (*zone).into(),
        established_after_answer: Some(tracker.established_after_answer(*zone)),
    };
    v1::GetZoneOptionsResponse { zones: zones.iter().map(options).collect() }
}

/// Zones, and what `established_after_answer` is to be there.
pub(super) fn wanted(request: &v1::SetZoneOptionsRequest) -> Result<Vec<(u16, bool)>, Status> {
    let zones = filter::zones("zones", request.zones.iter().map(|zone| zone.zone))?;
    let options: Option<Vec<_>> = request.zones.iter().map(|zone| zone.established_after_answer).collect();
    let options = options.filter(|options| !options.is_empty());
    let options = options.ok_or_else(|| {
        invalid(&[FieldError::new("zones", "nothing is to be set", "give zones with established_after_answer")])
    })?;
    Ok(zones.into_iter().zip(options).collect())
}
