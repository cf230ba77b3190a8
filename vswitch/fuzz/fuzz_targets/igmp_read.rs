//! IGMP of Pods and of other Nodes: any frame is read as a message or refused; what is told of is a
//! group; what is made of it is read as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vswitch_antrea::Mac;
use vswitch_antrea::igmp::{Change, IgmpBody, RECORDS_MAX, REPORTED_MAX, Sender, is_group, read, report};

fuzz_target!(|frame: &[u8]| {
    let Ok(message) = read(frame) else { return };
    let IgmpBody::Report(records) = message.body else { return };
    assert!(records.len() <= RECORDS_MAX, "{} records", records.len());
    assert!(records.iter().all(|record| is_group(record.group)), "{records:?}");
    let groups: Vec<_> = records.iter().map(|record| (record.group, record.change == Change::Join)).collect();
    let again = report(Sender { mac: Mac([2, 0, 0, 0, 0, 1]), address: message.source }, &groups, true);
    match read(&again).map(|message| message.body) {
        Ok(IgmpBody::Report(read)) => assert_eq!(read, records.get(..REPORTED_MAX).unwrap_or(&records)),
        other => panic!("{other:?}"),
    }
});
