//! Meter lines.

use super::Line;
use crate::spec::{Band, BandKind, MeterSpec, Update, meter as rules};
use crate::text::scan::{Form, Token, Tokens, quoted};
use crate::text::{NoNames, Parsed, TextError, value};

/// A meter line (`meter=1,pktps,burst,bands=type=drop,rate=100,burst_size=10`).
///
/// # Errors
/// With the column.
pub fn parse_meter(line: &str) -> Result<Parsed<MeterSpec>, TextError> {
    let line = Line::new(line, &NoNames)?;
    Ok(Parsed { value: read(&line, line.source.0)?, warnings: Vec::new() })
}

/// `add`, `modify` or `delete` behind `meter` in a bundle file.
pub(super) fn parse_part<'a>(line: &Line<'a>, command: &str, text: &'a str) -> Result<Parsed<Update>, TextError> {
    let value = match command {
        "add" => Update::AddMeter(read(line, text)?),
        "modify" => Update::ModifyMeter(read(line, text)?),
        _ => Update::DeleteMeters(deleted(line, text)?),
    };
    Ok(Parsed { value, warnings: Vec::new() })
}

/// `meter=1`, `meter=all` or nothing: all.
fn deleted<'a>(line: &Line<'a>, text: &'a str) -> Result<Option<u32>, TextError> {
    let mut tokens = Tokens::new(line.source, text);
    let mut id = None;
    while let Some(token) = tokens.next()? {
        match (token.key, token.value) {
            ("meter", "all") => id = None,
            ("meter", text) => id = Some(meter_id(line, text)?),
            (key, _) => return Err(line.source.unknown(key, "keyword of a meter", ["meter"])),
        }
    }
    Ok(id)
}

fn meter_id(line: &Line<'_>, text: &str) -> Result<u32, TextError> {
    match text {
        "controller" | "slowpath" => {
            let error =
                line.source.error(text, format!("meter={text} is not supported: this switch has no such meter"));
            let hint = match text {
                "controller" => "controller(meter_id=N) meters what a flow sends to controllers",
                _ => "meter:N meters the packets of a flow",
            };
            Err(error.hint(hint).code("OFPMMFC_INVALID_METER").field("meter"))
        }
        _ => {
            let id = line.source.u32("meter id", text).map_err(|error| error.code("OFPMMFC_INVALID_METER"))?;
            line.source.judged(text, rules::meter_id(id))?;
            Ok(id)
        }
    }
}

fn read<'a>(line: &Line<'a>, text: &'a str) -> Result<MeterSpec, TextError> {
    let source = line.source;
    let mut meter = MeterSpec { id: 0, pktps: false, burst: false, stats: false, bands: Vec::new() };
    let (mut id, mut unit, mut banded) = (None, None, false);
    let mut tokens = Tokens::new(source, text);
    while let Some(token) = tokens.next()? {
        match token.key {
            "meter" => id = Some(meter_id(line, line.value(&token)?)?),
            "kbps" | "pktps" => {
                if unit.is_some_and(|unit| unit != token.key) {
                    let error = source.error(token.key, "kbps and pktps exclude each other").hint("give one of them");
                    return Err(error.code("OFPMMFC_BAD_FLAGS").field(token.key));
                }
                unit = Some(token.key);
            }
            "burst" => meter.burst = true,
            "stats" => meter.stats = true,
            "band" | "bands" if token.form == Form::Value => {
                tokens.rewind_to_value(&token);
                banded = true;
                break;
            }
            key => {
                return Err(source.unknown(
                    key,
                    "keyword of a meter",
                    ["meter", "kbps", "pktps", "burst", "stats", "bands"],
                ));
            }
        }
    }
    let missing = |reason: &str, hint: &str, field: &str| Err(source.error(text, reason).hint(hint).field(field));
    match id {
        Some(id) => meter.id = id,
        None => return missing("there is no meter id", "meter=N", "meter"),
    }
    match unit {
        Some(unit) => meter.pktps = unit == "pktps",
        None => {
            let error = source.error(text, "there is no unit").hint("kbps or pktps");
            return Err(error.code("OFPMMFC_BAD_FLAGS").field("kbps"));
        }
    }
    if banded {
        bands(line, &mut tokens, &mut meter)?;
    }
    source.judged(text, rules::number_of_bands(meter.bands.len()))?;
    Ok(meter)
}

/// A band being read.
struct Raw<'a> {
    at: &'a str,
    remark: bool,
    rate: Option<u32>,
    burst: Option<u32>,
    precedence: Option<u8>,
}

fn bands<'a>(line: &Line<'a>, tokens: &mut Tokens<'a>, meter: &mut MeterSpec) -> Result<(), TextError> {
    let source = line.source;
    let mut last: Option<Raw<'a>> = None;
    while let Some(token) = tokens.next()? {
        if token.key == "type" {
            if let Some(raw) = last.take() {
                meter.bands.push(raw.finish(line, meter.burst)?);
            }
            let remark = match line.value(&token)? {
                "drop" => false,
                "dscp_remark" => true,
                other => return Err(source.unknown(other, "type of band", ["drop", "dscp_remark"])),
            };
            last = Some(Raw { at: token.key, remark, rate: None, burst: None, precedence: None });
            source.judged(token.key, rules::number_of_bands(meter.bands.len() + 1))?;
            continue;
        }
        let Some(raw) = &mut last else {
            let error = source.error(token.key, format!("{} is before the type of its band", quoted(token.key)));
            return Err(error.hint("bands=type=drop,rate=N").field(token.key));
        };
        raw.key(line, &token)?;
    }
    if let Some(raw) = last {
        meter.bands.push(raw.finish(line, meter.burst)?);
    }
    Ok(())
}

impl<'a> Raw<'a> {
    fn key(&mut self, line: &Line<'a>, token: &Token<'a>) -> Result<(), TextError> {
        let (source, value) = (line.source, || line.value(token));
        match token.key {
            "rate" => {
                let rate = source.u32(token.key, value()?)?;
                source.judged(token.value, rules::rate(rate))?;
                self.rate = Some(rate);
            }
            "burst_size" => {
                let burst = source.number(token.key, value()?, 1, u32::MAX.into())?;
                self.burst = u32::try_from(burst).ok();
            }
            "prec_level" => {
                let level = source.u8(token.key, value()?)?;
                source.judged(token.value, rules::precedence(level))?;
                self.precedence = Some(level);
            }
            key => {
                return Err(line.source.unknown(
                    key,
                    "keyword of a band",
                    ["type", "rate", "burst_size", "prec_level"],
                ));
            }
        }
        Ok(())
    }

    fn finish(self, line: &Line<'_>, burst: bool) -> Result<Band, TextError> {
        let refuse =
            |reason: &str, field: &str| Err(line.source.error(self.at, reason).code("OFPMMFC_BAD_BAND").field(field));
        let Some(rate) = self.rate else { return refuse("a band has no rate", "rate") };
        line.source.judged(self.at, rules::burst(burst, self.burst.unwrap_or_default()))?;
        let kind = match (self.remark, self.precedence) {
            (true, Some(precedence)) => BandKind::DscpRemark { precedence },
            (true, None) => return refuse("a dscp_remark band has no prec_level", "prec_level"),
            (false, Some(_)) => return refuse("only dscp_remark bands have a prec_level", "prec_level"),
            (false, None) => BandKind::Drop,
        };
        Ok(Band { kind, rate, burst: self.burst.unwrap_or_default() })
    }
}

/// As in dump-meters: a line for the meter and one for each band, without newline at the end.
pub fn format_meter(meter: &MeterSpec, out: &mut String) {
    value::push(out, format_args!("meter={} ", meter.id));
    out.push_str(if meter.pktps { "pktps " } else { "kbps " });
    for (name, given) in [("burst ", meter.burst), ("stats ", meter.stats)] {
        if given {
            out.push_str(name);
        }
    }
    out.push_str("bands=");
    for band in &meter.bands {
        out.push_str(match band.kind {
            BandKind::Drop => "\ntype=drop",
            BandKind::DscpRemark { .. } => "\ntype=dscp_remark",
        });
        value::push(out, format_args!(" rate={}", band.rate));
        if meter.burst {
            value::push(out, format_args!(" burst_size={}", band.burst));
        }
        if let BandKind::DscpRemark { precedence } = band.kind {
            value::push(out, format_args!(" prec_level={precedence}"));
        }
    }
}
