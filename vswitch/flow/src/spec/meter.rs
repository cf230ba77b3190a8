//! What meters must be, whoever asks for them.

use super::{Band, BandKind, MeterSpec, limits};
use crate::Refusal;
use crate::action::limits::MAX_METER;

impl MeterSpec {
    /// What a meter must be.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Refusal> {
        meter_id(self.id)?;
        number_of_bands(self.bands.len())?;
        for (band, number) in self.bands.iter().zip(1..) {
            band.check(self.burst).map_err(|refusal| refusal.of(format_args!("band {number}")))?;
        }
        Ok(())
    }
}

impl Band {
    /// What a band must be, of a meter that has bursts or not.
    fn check(&self, has_burst: bool) -> Result<(), Refusal> {
        rate(self.rate)?;
        burst(has_burst, self.burst)?;
        match self.kind {
            BandKind::Drop => Ok(()),
            BandKind::DscpRemark { precedence: level } => precedence(level),
        }
    }
}

pub(crate) fn meter_id(id: u32) -> Result<(), Refusal> {
    if (1..=MAX_METER).contains(&id) {
        return Ok(());
    }
    let refusal = Refusal::new("OFPMMFC_INVALID_METER", format!("{id} is no meter id"));
    Err(refusal.hint(format!("a number from 1 to {MAX_METER}")).field("meter"))
}

pub(crate) fn number_of_bands(bands: usize) -> Result<(), Refusal> {
    if (1..=limits::MAX_BANDS).contains(&bands) {
        return Ok(());
    }
    let refusal =
        Refusal::new("OFPMMFC_OUT_OF_BANDS", format!("a meter has 1 to {} bands, not {bands}", limits::MAX_BANDS));
    Err(refusal.hint("bands=type=drop,rate=N").field("bands"))
}

pub(crate) fn rate(rate: u32) -> Result<(), Refusal> {
    if rate != 0 {
        return Ok(());
    }
    let refusal = Refusal::new("OFPMMFC_BAD_RATE", "a rate of 0 lets nothing pass");
    Err(refusal.hint("a number from 1 on; to drop everything, use actions=drop").field("rate"))
}

/// A band's burst; 0: none is given.
pub(crate) fn burst(has_burst: bool, burst: u32) -> Result<(), Refusal> {
    let refuse = |reason, hint| Err(Refusal::new("OFPMMFC_BAD_BURST", reason).hint(hint).field("burst_size"));
    match (has_burst, burst) {
        (true, 0) => refuse(
            "a band has no burst_size, though the meter has burst",
            "leave `burst` out for a burst of one second of the rate",
        ),
        (false, 1..) => refuse("a band has a burst_size, but the meter has no burst", "give the flag `burst`"),
        _ => Ok(()),
    }
}

pub(crate) fn precedence(level: u8) -> Result<(), Refusal> {
    if level != 0 {
        return Ok(());
    }
    let refusal = Refusal::new("OFPMMFC_BAD_BAND", "a remark raises the drop precedence by nothing");
    Err(refusal.hint("use 1 or 2").field("prec_level"))
}
