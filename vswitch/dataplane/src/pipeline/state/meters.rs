//! Updates of meters.

use super::Refused;
use super::draft::Draft;
use super::refs::Ref;
use crate::limits;
use crate::meter::Meter;
use std::sync::Arc;
use vswitch_flow::spec::MeterSpec;

impl Draft<'_> {
    pub(super) fn add_meter(&mut self, spec: &MeterSpec) -> Result<u64, Refused> {
        spec.check()?;
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
        spec.check()?;
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
