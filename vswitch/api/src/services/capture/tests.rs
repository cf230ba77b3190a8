//! Requests that are judged, and times.

use super::reader::Moment;
use super::request::{Limits, limits, spec};
use std::time::Duration;
use tonic::Code;
use vswitch_dataplane::capture::Point;
use vswitch_proto::v1::{CapturePoint, CaptureRequest};

#[test]
fn what_is_not_said_has_defaults() {
    let request = CaptureRequest { bridge: "br0".to_owned(), ..CaptureRequest::default() };
    assert_eq!(limits(&request).expect("good"), Limits { count: 1000, time: Duration::from_secs(10) });
    let spec = spec(&request).expect("good");
    assert_eq!((&*spec.bridge, spec.ports.len(), spec.snaplen), ("br0", 0, 65_535));
    assert_eq!(spec.points, [Point::Rx, Point::Tx]);
    assert!(spec.matching.is_none());
}

#[test]
fn what_is_said_holds() {
    let points = vec![CapturePoint::Tx.into(), CapturePoint::Tx.into()];
    let request = CaptureRequest {
        points,
        r#match: "tcp".to_owned(),
        snaplen: 96,
        count: 1,
        seconds: 3600,
        ..Default::default()
    };
    assert_eq!(limits(&request).expect("good"), Limits { count: 1, time: Duration::from_secs(3600) });
    let spec = spec(&request).expect("good");
    assert_eq!((spec.points, spec.snaplen, spec.matching.is_some()), (vec![Point::Tx], 96, true));
}

#[test]
fn what_is_out_of_range_is_named() {
    let request = CaptureRequest { count: 100_000_001, seconds: 3601, snaplen: 65_536, ..CaptureRequest::default() };
    let status = limits(&request).expect_err("out of range");
    assert_eq!(status.code(), Code::InvalidArgument);
    for field in ["count", "seconds", "snaplen"] {
        assert!(status.message().contains(field), "{}", status.message());
    }
    let unknown = CaptureRequest { points: vec![9], ..CaptureRequest::default() };
    assert!(spec(&unknown).expect_err("unknown").message().contains("9 is not known"));
    let wrong = CaptureRequest { r#match: "tcp,nonsense=1".to_owned(), ..CaptureRequest::default() };
    let status = spec(&wrong).expect_err("wrong");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("nonsense"), "{}", status.message());
}

#[test]
fn cycles_become_times() {
    let moment = Moment { cycles: 5_000_000_000, hz: 2_000_000_000, ns: 1_700_000_000_000_000_000 };
    assert_eq!(moment.time_of(5_000_000_000), moment.ns);
    assert_eq!(moment.time_of(4_999_999_998), moment.ns - 1);
    assert_eq!(moment.time_of(1_000_000_000), moment.ns - 2_000_000_000);
    assert_eq!(moment.time_of(6_000_000_000), moment.ns, "a counter of another core may be ahead");
}
