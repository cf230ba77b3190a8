//! Where packets come in.

/// The port by which a packet came in, by its number. What the packet opens counts for that port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingress(u16);

impl Ingress {
    /// No port: a packet of a controller.
    pub const NONE: Self = Self(0);

    /// A port by its number; `u16::MAX`: none.
    #[inline]
    #[must_use]
    pub const fn port(number: u16) -> Self {
        Self(number.wrapping_add(1))
    }

    /// The number of the port.
    #[inline]
    pub(crate) const fn number(self) -> Option<u16> {
        self.0.checked_sub(1)
    }
}
