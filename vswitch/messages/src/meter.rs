//! Meters.

use super::narrow;
use vswitch_flow::spec::{Band, BandKind, MeterSpec};
use vswitch_flow::text::TextError;
use vswitch_proto::v1;

/// A meter.
pub fn meter(message: &v1::Meter) -> Result<MeterSpec, TextError> {
    let bands: Result<Vec<_>, _> = message.bands.iter().map(band).collect();
    let v1::Meter { id, pktps, burst, stats, .. } = *message;
    let meter = MeterSpec { id, pktps, burst, stats, bands: bands? };
    meter.check()?;
    Ok(meter)
}

fn band(message: &v1::Band) -> Result<Band, TextError> {
    let kind = match message.dscp_remark {
        None => BandKind::Drop,
        Some(levels) => BandKind::DscpRemark { precedence: narrow("band.dscp_remark", levels, 255)? },
    };
    Ok(Band { kind, rate: message.rate, burst: message.burst_size })
}

/// A meter as a message.
pub fn meter_message(meter: &MeterSpec) -> v1::Meter {
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
