//! The Huffman code of HPACK's strings (RFC 7541, 5.2 and appendix B).

/// Bits of the longest code.
const LEN_MAX: usize = 30;

/// Bits of the code of each byte, and of the end of a string (EOS), whose first bits are sent as
/// padding. The code is canonical: shorter codes come first, equally long ones in the order of
/// their symbols. So the lengths say all of it.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

/// The code by lengths.
struct Code {
    /// For each length: the first 30 bits that are behind all codes of this length, from the left.
    behind: [u32; LEN_MAX + 1],
    /// For each length: its first code.
    first: [u32; LEN_MAX + 1],
    /// For each length: where its symbols begin.
    start: [usize; LEN_MAX + 1],
    /// All symbols in the order of their codes.
    symbols: [u16; LENGTHS.len()],
}

const CODE: Code = Code::new();

impl Code {
    const fn new() -> Self {
        let mut code =
            Self { behind: [0; LEN_MAX + 1], first: [0; LEN_MAX + 1], start: [0; LEN_MAX + 1], symbols: [0; 257] };
        let (mut next, mut placed, mut len) = (0_u32, 0, 1);
        while len <= LEN_MAX {
            next <<= 1;
            code.first[len] = next;
            code.start[len] = placed;
            let mut symbol = 0;
            while symbol < LENGTHS.len() {
                if LENGTHS[symbol] as usize == len {
                    #[allow(clippy::cast_possible_truncation)] // at most 256
                    {
                        code.symbols[placed] = symbol as u16;
                    }
                    placed += 1;
                    next += 1;
                }
                symbol += 1;
            }
            code.behind[len] = next << (LEN_MAX - len);
            len += 1;
        }
        code
    }

    /// The symbol that 30 bits begin with, and the length of its code.
    fn read(&self, window: u32) -> (usize, usize) {
        let len = (5..LEN_MAX).find(|&len| window < self.behind[len]).unwrap_or(LEN_MAX);
        let nth = (window >> (LEN_MAX - len)) - self.first[len];
        (usize::from(self.symbols[self.start[len] + nth as usize]), len)
    }
}

/// Appends what `coded` says to `out`; `None` if it is no string of this code, with at most 7 bits
/// of padding.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // The lower `bits` of `held` are still to be read.
    let (mut held, mut bits, mut rest) = (0_u64, 0_usize, coded.iter());
    loop {
        while bits <= 32 {
            let Some(&byte) = rest.next() else { break };
            held = held << 8 | u64::from(byte);
            bits += 8;
        }
        // Behind the end there are ones, like padding.
        let padded = if bits < LEN_MAX {
            held << (LEN_MAX - bits) | ((1 << (LEN_MAX - bits)) - 1)
        } else {
            held >> (bits - LEN_MAX)
        };
        let window = u32::try_from(padded & ((1 << LEN_MAX) - 1)).ok()?;
        let (symbol, len) = CODE.read(window);
        if len > bits {
            let padding = (1 << bits) - 1;
            return (bits < 8 && held & padding == padding).then_some(());
        }
        out.push(u8::try_from(symbol).ok()?); // EOS must not be sent
        bits -= len;
        held &= (1 << bits) - 1;
    }
}

/// The code of `plain`, with padding.
#[cfg(test)]
pub(super) fn encode(plain: &[u8]) -> Vec<u8> {
    let (mut out, mut held, mut bits) = (Vec::new(), 0_u64, 0);
    for &byte in plain {
        let len = usize::from(LENGTHS[usize::from(byte)]);
        let nth =
            CODE.symbols.iter().position(|&symbol| symbol == u16::from(byte)).expect("a symbol") - CODE.start[len];
        held = held << len | (u64::from(CODE.first[len]) + nth as u64);
        bits += len;
        while bits >= 8 {
            bits -= 8;
            out.push((held >> bits & 0xff) as u8);
        }
    }
    if bits > 0 {
        out.push(((held << (8 - bits) | ((1 << (8 - bits)) - 1)) & 0xff) as u8);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 7541, appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_rfc() {
        for (coded, plain) in [
            (&[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..], &b"www.example.com"[..]),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], b"no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f], b"custom-key"),
            (&[0x64, 0x02], b"302"),
            (&[], b""),
        ] {
            let mut out = Vec::new();
            assert_eq!((decode(coded, &mut out), out.as_slice()), (Some(()), plain));
            assert_eq!(encode(plain), coded);
        }
        assert_eq!(CODE.symbols[256], 256, "the last code is that of EOS");
    }

    #[test]
    fn bad_padding_and_eos_are_no_strings() {
        for coded in [&[0xff][..], &[0xff; 4], &[0x00], &[0x1f, 0xff], &[0xfe]] {
            assert_eq!(decode(coded, &mut Vec::new()), None, "{coded:x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(plain in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            prop_assert_eq!(decode(&encode(&plain), &mut out), Some(()));
            prop_assert_eq!(out, plain);
        }

        #[test]
        fn what_is_decoded_is_the_code_of_it(coded in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            if decode(&coded, &mut out).is_some() {
                prop_assert_eq!(encode(&out), coded);
            }
        }
    }
}
