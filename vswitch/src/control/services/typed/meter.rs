//! Meters.

use super::{narrow, wrong};
use vswitch_flow::spec::{Band, BandKind, MeterSpec};
use vswitch_flow::text::TextError;
use vswitch_proto::v1;

/// A meter.
pub(in crate::control::services) fn meter(message: &v1::Meter) -> Result<MeterSpec, TextError> {
    let bands: Result<Vec<_>, _> = message.bands.iter().map(band).collect();
    let bands = bands?;
    if !message.burst && bands.iter().any(|band| band.burst != 0) {
        return Err(wrong("band.burst_size", "a band has a burst size and the meter has not burst", "set burst"));
    }
    Ok(MeterSpec { id: message.id, pktps: message.pktps, burst: message.burst, stats: message.stats, bands })
}

fn band(message: &v1::Band) -> Result<Band, TextError> {
    if message.rate == 0 {
        return Err(wrong("band.rate", "a band has the rate 0", "use 1 or more"));
    }
    let kind = match message.dscp_remark {
        None => BandKind::Drop,
        Some(levels) => BandKind::DscpRemark { precedence: narrow("band.dscp_remark", levels, 255)? },
    };
    Ok(Band { kind, rate: message.rate, burst: message.burst_size })
}

/// A meter as a message.
pub(in crate::control::services) fn meter_message(meter: &MeterSpec) -> v1::Meter {
    let band = |band: &Band| v1::Band {
        rate: band.rate,
        burst_size: band.burst,
        dscp_remark: match band.kind {
            BandKind::Drop => None,
            BandKind::DscpRemark { precedence } => Some(precedence.into()),
        },
    };
    v1::Meter {
        id: meter.id,
        pktps: meter.pktps,
        burst: meter.burst,
        stats: meter.stats,
        bands: meter.bands.iter().map(band).collect(),
    }
}
