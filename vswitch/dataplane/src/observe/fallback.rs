//! Why a packet of a connection took the slow path: through its decisions one by one, and the
//! tracker's table.

macro_rules! fallbacks {
    ($($variant:ident = $name:literal, $sentence:literal;)*) => {
        /// Why a packet that met `ct()` was not handled by a program, or why none was made of what
        /// became of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Fallback { $(#[doc = $sentence] $variant,)* }

        impl Fallback {
            /// How many there are.
            pub const COUNT: usize = [$(Self::$variant),*].len();
            /// All of them, in order.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$variant),*];

            /// As users read it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What happened, in one sentence for an operator.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }
    };
}

fallbacks! {
    Untracked = "untracked", "It belongs to no connection yet, or is no plain segment or datagram of one: opens it, ends it, is invalid, an error, of a helper.";
    Changed = "changed", "It has changed its connection: mark, label, state, first reply.";
    Shape = "shape", "Its way has a form that no program has: a copy goes on behind ct(), a controller is told, there are too many stages.";
    Uncached = "uncached", "A decision on its way may not be kept.";
    Stale = "stale", "A decision of its path is to be looked at once more, or has ended.";
    Connection = "connection", "Its connection is not as it was, has expired, or does not expect such a segment now.";
    Checksum = "checksum", "Its lengths or checksums are not right.";
    Tunnel = "tunnel", "It comes out of a tunnel.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_places_and_names_unique() {
        let mut names = HashSet::new();
        for (at, reason) in Fallback::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{}", reason.name());
            assert!(names.insert(reason.name()), "{} twice", reason.name());
            assert!(reason.sentence().ends_with('.'), "{}", reason.name());
        }
    }
}
