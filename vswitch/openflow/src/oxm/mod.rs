//! Fields on the wire: OXM and NXM.
//!
//! An entry is a header (class, field, whether there is a mask, length), a value and maybe a mask.
//! `table` has the numbers of all fields, `entry` reads and writes entries and bare headers,
//! `matching` whole matches in the order of Open vSwitch.

mod entry;
mod matching;
mod table;

pub(crate) use entry::{
    Entry, Names, header, header_by, put_entry, put_entry_as, put_field, put_header, read_entry, read_header,
};
pub(crate) use matching::{list, matching, put_list, put_matching, read_metadata};
pub(crate) use table::Header;
