//! Prints docs/drop-reasons.md.

#![allow(clippy::print_stdout)] // that is what it is for

fn main() {
    print!("{}", vswitch_control::drops::page());
}
