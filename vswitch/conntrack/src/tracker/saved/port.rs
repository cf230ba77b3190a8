//! The names of ports in a file, and their places there.

use super::super::ports::{SLOTS, Slot};
use super::{Input, Output, PORT, RestoreError};
use std::io::{Read, Write};

/// Bytes of a name, at most.
const NAME_MAX: usize = 255;

/// By slot, the place of its name in the file, from 1.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<u16>);

impl Numbers {
    /// Writes names. What has a longer one is of no port.
    pub(super) fn write<W: Write>(names: &[(Slot, String)], output: &mut Output<'_, W>) -> Self {
        let mut numbers = vec![0; SLOTS];
        let fit = names.iter().filter(|(_, name)| name.len() <= NAME_MAX);
        for (number, (slot, name)) in (1..).zip(fit) {
            numbers[usize::from(slot.0)] = number;
            output.put(&[PORT | (name.len() as u64) << 8]);
            let words = name.as_bytes().chunks(8).map(|bytes| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            });
            words.for_each(|word| output.put(&[word]));
        }
        Self(numbers)
    }

    /// 0: none.
    pub(super) fn of(&self, slot: Slot) -> u16 {
        self.0.get(usize::from(slot.0)).copied().unwrap_or_default()
    }
}

/// Names, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<String>);

impl Names {
    /// What follows the first word of a name.
    pub(super) fn read<R: Read>(&mut self, head: u64, input: &mut Input<R>) -> Result<(), RestoreError> {
        let len = usize::try_from(head >> 8).ok().filter(|len| (1..=NAME_MAX).contains(len));
        let len = len.ok_or_else(|| input.wrong("no port has such a name"))?;
        if self.0.len() >= SLOTS {
            return Err(input.wrong("there are more ports than any switch has"));
        }
        let mut bytes = Vec::with_capacity(NAME_MAX + 8);
        for _ in 0..len.div_ceil(8) {
            bytes.extend(input.word()?.to_le_bytes());
        }
        bytes.truncate(len);
        self.0.push(String::from_utf8(bytes).map_err(|_| input.wrong("no port has such a name"))?);
        Ok(())
    }

    /// The name of a connection's port; none: it has none.
    pub(super) fn name<R>(&self, number: u16, input: &Input<R>) -> Result<Option<&str>, RestoreError>
    where
        R: Read,
    {
        let Some(place) = usize::from(number).checked_sub(1) else { return Ok(None) };
        let name = self.0.get(place).ok_or_else(|| input.wrong("its port has no name"))?;
        Ok(Some(name))
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}
