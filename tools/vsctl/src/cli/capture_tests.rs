//! Captures parse, and what follows tcpdump's port is tcpdump's.

use super::super::{Cli, Command, arguments};
use super::{Capture, CaptureArgs, CapturePoint, TcpdumpArgs};
use clap::Parser;
use std::ffi::OsString;
use std::path::Path;

fn parse(line: &str) -> Result<Capture, clap::Error> {
    let words = std::iter::once("vsctl").chain(line.split_whitespace()).map(OsString::from);
    match Cli::try_parse_from(arguments(words))?.command {
        Command::Capture(capture) => Ok(capture),
        other => panic!("{line}: {other:?}"),
    }
}

fn capture(line: &str) -> CaptureArgs {
    match parse(line) {
        Ok(Capture::Capture(args)) => args,
        other => panic!("{line}: {other:?}"),
    }
}

fn tcpdump(line: &str) -> TcpdumpArgs {
    match parse(line) {
        Ok(Capture::Tcpdump(args)) => args,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn captures() {
    let args = capture("capture br0 -w x");
    assert_eq!((&*args.bridge, args.ports.len(), &*args.file), ("br0", 0, Path::new("x")));
    assert_eq!((&*args.filter.matching, args.filter.points.len(), args.filter.snaplen), ("", 0, None));
    assert_eq!((args.count, args.seconds), (None, None));
    let args =
        capture("capture br0 p1 p2 --point rx --point tx --match tcp,tp_dst=80 -s 96 -c 5 --seconds 60 --write -");
    assert_eq!((args.ports, &*args.file), (vec!["p1".to_owned(), "p2".to_owned()], Path::new("-")));
    assert_eq!(args.filter.points, [CapturePoint::Rx, CapturePoint::Tx]);
    assert_eq!((&*args.filter.matching, args.filter.snaplen), ("tcp,tp_dst=80", Some(96)));
    assert_eq!((args.count, args.seconds), (Some(5), Some(60)));
    assert_eq!(capture("capture br0 --point rx,tx -w x").filter.points.len(), 2);
    for wrong in ["capture br0", "capture -w x", "capture br0 -w x -c 0", "capture br0 -w x --seconds 0"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_follows_the_port_is_not_ours() {
    let args = tcpdump("tcpdump --point rx --match udp br0 p1 -nn -s 96 -c 3 --match x tcp port 80");
    assert_eq!((&*args.bridge, &*args.port, &*args.filter.matching), ("br0", "p1", "udp"));
    assert_eq!((args.filter.snaplen, args.filter.points), (None, vec![CapturePoint::Rx]));
    assert_eq!(args.arguments, ["-nn", "-s", "96", "-c", "3", "--match", "x", "tcp", "port", "80"]);
    assert!(tcpdump("tcpdump br0 p1").arguments.is_empty());
    assert!(parse("tcpdump br0").is_err());
}
