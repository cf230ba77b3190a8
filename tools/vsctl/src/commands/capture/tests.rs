//! Summaries, and files.

use super::file::CaptureFile;
use super::sink::create;
use super::summary::{End, Summary};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use vswitch_proto::v1;

fn started() -> v1::CaptureStarted {
    let interface =
        |point: v1::CapturePoint| v1::CaptureInterface { port: "p1".to_owned(), number: 1, point: point.into() };
    let interfaces = [v1::CapturePoint::Rx, v1::CapturePoint::Tx].map(interface).to_vec();
    v1::CaptureStarted { interfaces, snaplen: 65_535 }
}

fn record(interface: u32) -> v1::CaptureRecord {
    v1::CaptureRecord { interface, time: 5, data: vec![0; 60], length: 60, packet_id: 9, drop: None }
}

#[test]
fn what_came_is_counted_here_and_losses_are_the_switchs_word() {
    let mut summary = Summary::new(started());
    let records = vec![record(0), record(1), record(1), record(7)];
    assert_eq!(summary.count(v1::CaptureRecords { records }).len(), 3, "there is no interface 7");
    assert_eq!(summary.text(), "3 packets captured: interrupted\n");
    let statistics = v1::CaptureStatistics { captured: 1, filtered: 4, not_copied: 5, beyond_count: 6, refused: 7 };
    summary.note(vec![v1::CaptureStatistics::default(), statistics]);
    summary.end = End::of(v1::CaptureEnd::Ports);
    assert_eq!(
        summary.text(),
        "3 packets captured: none of its ports is left\n\
         5 packets not copied: give --match, --snaplen or fewer ports\n\
         7 packets refused by ports, and not captured\n"
    );
    let interface = |point: &str, [captured, filtered, not_copied, beyond_count, refused]: [u64; 5]| {
        json!({
            "port": "p1",
            "number": 1,
            "point": point,
            "captured": captured,
            "filtered": filtered,
            "not_copied": not_copied,
            "beyond_count": beyond_count,
            "refused": refused,
        })
    };
    let interfaces = [interface("rx", [1, 0, 0, 0, 0]), interface("tx", [2, 4, 5, 6, 7])];
    assert_eq!(summary.json(), json!({ "ended": "ports", "interfaces": interfaces }));
}

#[test]
fn files_are_their_owners_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.pcapng");
    std::fs::write(&path, "an older capture").expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
    for round in 0..2 {
        let mut file = CaptureFile::begin(create(&path).expect("created"), "br0", &started()).expect("begun");
        file.records(&[record(0), record(1)], &[String::new(), "why".to_owned()]).expect("written");
        file.end(&[v1::CaptureStatistics::default(); 2]).expect("written");
        let about = std::fs::metadata(&path).expect("there");
        assert_eq!(about.permissions().mode() & 0o7777, 0o600, "{round}");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "{round}");
        std::fs::remove_file(&path).expect("removed");
    }
}
