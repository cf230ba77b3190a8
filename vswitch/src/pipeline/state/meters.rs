//! Updates of meters.

use super::Refused;
use super::draft::Draft;
use super::refs::Ref;
use crate::limits;
use crate::meter::Meter;
use std::sync::Arc;
use vswitch_flow::spec::{BandKind, MeterSpec};

impl Draft<'_> {
    pub(super) fn add_meter(&mut self, spec: &MeterSpec) -> Result<u64, Refused> {
        check_spec(spec)?;
        let what = Ref::Meter(spec.id);
        if let Some(old) = self.meters().get(&spec.id) {
            if !self.is_swept(what) {
                let reason = format!("meter {} exists", spec.id);
                let hint = "change it (mod-meter), or delete it first";
                return Err(Refused::new("OFPMMFC_METER_EXISTS", "meter", reason).hint(hint));
            }
            if old.spec == *spec {
                self.added_refs.insert(what, self.update);
                return Ok(1);
            }
        } else if self.meters().len() >= limits::METERS_MAX {
            let reason = format!("the limit of {} meters is reached", limits::METERS_MAX);
            return Err(Refused::new("OFPMMFC_OUT_OF_METERS", "meter", reason));
        }
        let meter = Meter::new(spec.clone(), self.now);
        self.put_meter(meter);
        Ok(1)
    }

    pub(super) fn modify_meter(&mut self, spec: &MeterSpec) -> Result<u64, Refused> {
        check_spec(spec)?;
        let Some(old) = self.meters().get(&spec.id) else {
            let reason = format!("meter {} does not exist", spec.id);
            return Err(Refused::new("OFPMMFC_UNKNOWN_METER", "meter", reason).hint("add it first"));
        };
        let meter = old.modified(spec.clone(), self.now);
        self.put_meter(meter);
        Ok(1)
    }

    pub(super) fn delete_meters(&mut self, id: Option<u32>) -> u64 {
        let ids: Vec<u32> = match id {
            Some(id) => self.meters().contains_key(&id).then_some(id).into_iter().collect(),
            None => self.meters().keys().copied().collect(),
        };
        for id in &ids {
            self.meters_mut().remove(id);
            self.deleted.insert(Ref::Meter(*id), self.update);
        }
        ids.len() as u64
    }

    fn put_meter(&mut self, meter: Meter) {
        if !self.sweeps.is_empty() {
            self.added_refs.insert(Ref::Meter(meter.spec.id), self.update);
        }
        self.meters_mut().insert(meter.spec.id, Arc::new(meter));
    }
}

pub(crate) fn check_spec(spec: &MeterSpec) -> Result<(), Refused> {
    if spec.id == 0 || spec.id > limits::METER_ID_MAX {
        let reason = format!("{} is no meter id", spec.id);
        let hint = format!("use 1 to {}", limits::METER_ID_MAX);
        return Err(Refused::new("OFPMMFC_INVALID_METER", "meter", reason).hint(hint));
    }
    if spec.bands.is_empty() || spec.bands.len() > limits::BANDS_MAX {
        let reason = format!("a meter has 1 to {} bands, not {}", limits::BANDS_MAX, spec.bands.len());
        return Err(Refused::new("OFPMMFC_OUT_OF_BANDS", "bands", reason));
    }
    for (i, band) in spec.bands.iter().enumerate() {
        let at = |code, field, reason: &str| Refused::new(code, field, format!("band {}: {reason}", i + 1));
        if band.rate == 0 {
            let refused = at("OFPMMFC_BAD_RATE", "rate", "a rate of 0 lets nothing pass");
            return Err(refused.hint("to drop everything, use actions=drop"));
        }
        if spec.burst && band.burst == 0 {
            let refused = at("OFPMMFC_BAD_BURST", "burst_size", "a burst of 0 lets nothing pass");
            return Err(refused.hint("leave `burst` out for a burst of one second of the rate"));
        }
        if !spec.burst && band.burst != 0 {
            let refused = at("OFPMMFC_BAD_BURST", "burst_size", "the meter has a burst_size but not the flag `burst`");
            return Err(refused.hint("give the flag"));
        }
        if let BandKind::DscpRemark { precedence: 0 } = band.kind {
            let refused = at("OFPMMFC_BAD_BAND", "prec_level", "it raises the drop precedence by nothing");
            return Err(refused.hint("use 1 or 2"));
        }
    }
    Ok(())
}
