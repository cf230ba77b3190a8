//! Properties: type, length without padding, data, padding to 8 bytes.

use crate::wire::{Reader, Result, Writer, refusal, refuse};

const BAD_LEN: &str = "OFPBPC_BAD_LEN";

/// One property.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Property<'a> {
    pub(crate) kind: u16,
    pub(crate) data: Reader<'a>,
}

/// The type of properties that an experimenter defines.
pub(crate) const EXPERIMENTER: u16 = 0xffff;

impl<'a> Property<'a> {
    /// The data is a number of exactly these bytes.
    pub(crate) fn number_u8(mut self) -> Result<u8> {
        self.exact(Reader::u8)
    }

    /// Its padding may be counted in the property's length or not.
    pub(crate) fn number_u16(mut self) -> Result<u16> {
        self.exact(|data| {
            let number = data.u16()?;
            data.skip(if data.len() == 2 { 2 } else { 0 })?;
            Ok(number)
        })
    }

    pub(crate) fn number_u32(mut self) -> Result<u32> {
        self.exact(Reader::u32)
    }

    /// 4 bytes of padding are in front of 64-bit numbers.
    pub(crate) fn number_u64(mut self) -> Result<u64> {
        self.exact(|data| {
            data.skip(4)?;
            data.u64()
        })
    }

    fn exact<T>(&mut self, read: impl Fn(&mut Reader<'a>) -> Result<T>) -> Result<T> {
        let value = read(&mut self.data)?;
        self.data.end()?;
        Ok(value)
    }
}

/// All properties to the end.
pub(crate) fn properties(mut input: Reader<'_>) -> impl Iterator<Item = Result<Property<'_>>> {
    let mut failed = false;
    std::iter::from_fn(move || {
        if failed || input.is_empty() {
            return None;
        }
        let next = next(&mut input);
        failed = next.is_err();
        Some(next)
    })
}

fn next<'a>(input: &mut Reader<'a>) -> Result<Property<'a>> {
    let short = || refusal(BAD_LEN, "a property is longer than what it is in");
    let mut header = Reader::new(input.take(4).map_err(|_| short())?, BAD_LEN);
    let (kind, len) = (header.u16()?, usize::from(header.u16()?));
    let Some(data) = len.checked_sub(4) else {
        return refuse(BAD_LEN, format!("a property of {len} bytes is shorter than its header"));
    };
    let property = Property { kind, data: input.part(data, BAD_LEN).map_err(|_| short())? };
    input.skip(len.next_multiple_of(8) - len).map_err(|_| short())?;
    Ok(property)
}

/// Writes a property.
pub(crate) fn put_property(kind: u16, data: &[u8], out: &mut Writer) {
    let start = out.len();
    out.u16(kind);
    out.u16(0);
    out.bytes(data);
    out.length(start + 2, start);
    out.pad(start);
}

/// Writes a property of a 16-bit number, whose padding is counted.
pub(crate) fn put_u16(kind: u16, value: u16, out: &mut Writer) {
    let [high, low] = value.to_be_bytes();
    put_property(kind, &[high, low, 0, 0], out);
}

/// Writes a property of a 64-bit number.
pub(crate) fn put_u64(kind: u16, value: u64, out: &mut Writer) {
    let mut data = [0; 12];
    data[4..].copy_from_slice(&value.to_be_bytes());
    put_property(kind, &data, out);
}
