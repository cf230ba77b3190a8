//! MAC tables.

use crate::cli::FdbFlush;
use crate::client::Client;
use crate::output::{self, Answer, Done, Report, port_number};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

fn address(octets: [u8; 6]) -> Option<v1::MacAddress> {
    Some(v1::MacAddress { octets: octets.to_vec() })
}

pub(super) async fn show(client: &Client, bridge: &str) -> Answer {
    let request = v1::ListFdbRequest { bridge: bridge.to_owned() };
    let mut chunks = client.answer(client.fdb().await?.list_fdb(request).await)?;
    let mut entries = Vec::new();
    while let Some(chunk) = chunks.message().await.map_err(|status| client.error(status))? {
        entries.extend(chunk.entries);
    }
    Ok(Box::new(Entries(entries)))
}

pub(super) async fn flush(client: &Client, args: &FdbFlush) -> Answer {
    let request = v1::FlushFdbRequest {
        bridge: args.bridge.clone(),
        port: args.port.clone(),
        vlan: args.vlan,
        mac: args.mac.and_then(address),
        statics: args.statics,
    };
    Ok(Box::new(Flushed(client.answer(client.fdb().await?.flush_fdb(request).await)?.flushed)))
}

pub(super) async fn add(client: &Client, bridge: &str, port: &str, vlan: u32, mac: [u8; 6]) -> Answer {
    let (bridge, port) = (bridge.to_owned(), port.to_owned());
    let request = v1::AddFdbEntryRequest { bridge, port, vlan, mac: address(mac) };
    client.answer(client.fdb().await?.add_fdb_entry(request).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn delete(client: &Client, bridge: &str, vlan: u32, mac: [u8; 6]) -> Answer {
    let request = v1::DeleteFdbEntryRequest { bridge: bridge.to_owned(), vlan, mac: address(mac) };
    client.answer(client.fdb().await?.delete_fdb_entry(request).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn stats(client: &Client, bridge: &str) -> Answer {
    let request = v1::GetFdbStatsRequest { bridge: bridge.to_owned() };
    let stats = client.answer(client.fdb().await?.get_fdb_stats(request).await)?.stats.unwrap_or_default();
    Ok(Box::new(Stats { bridge: bridge.to_owned(), stats }))
}

/// `fdb-show`: the lines of `ovs-appctl fdb/show`.
struct Entries(Vec<v1::FdbEntry>);

impl Report for Entries {
    fn text(&self) -> String {
        let mut text = " port  VLAN  MAC                Age\n".to_owned();
        for entry in &self.0 {
            let (port, mac) = (port_number(entry.port_number), output::mac(entry.mac.as_ref()));
            let age = entry.age_seconds.map_or_else(|| "static".to_owned(), |age| format!("{age:>3}"));
            let _ = writeln!(text, "{port:>5}  {:>4}  {mac}  {age}", entry.vlan);
        }
        text
    }

    fn json(&self) -> Value {
        let entry = |entry: &v1::FdbEntry| {
            json!({
                "port": entry.port,
                "port_number": entry.port_number,
                "vlan": entry.vlan,
                "mac": output::mac(entry.mac.as_ref()),
                "age": entry.age_seconds,
                "static": entry.age_seconds.is_none(),
            })
        };
        self.0.iter().map(entry).collect()
    }
}

/// `fdb-flush`.
struct Flushed(u64);

impl Report for Flushed {
    fn text(&self) -> String {
        format!("flushed {} addresses\n", self.0)
    }

    fn json(&self) -> Value {
        json!({ "flushed": self.0 })
    }
}

/// `fdb-stats`: the lines of `ovs-appctl fdb/stats-show`, and one more.
struct Stats {
    bridge: String,
    stats: v1::FdbStats,
}

/// A MAC table in numbers, for programs.
pub(super) fn stats_json(stats: &v1::FdbStats) -> Value {
    json!({
        "entries": stats.entries,
        "static": stats.statics,
        "limit": stats.limit,
        "learned": stats.learned,
        "expired": stats.expired,
        "evicted": stats.evicted,
        "moved": stats.moved,
        "refused": stats.refused,
    })
}

impl Report for Stats {
    fn text(&self) -> String {
        let v1::FdbStats { entries, statics, limit, learned, expired, evicted, moved, refused } = self.stats;
        format!(
            "Statistics for bridge {:?}:\n  \
             Current/maximum MAC entries in the table: {entries}/{limit}\n  \
             Current static MAC entries in the table : {statics}\n  \
             Total number of learned MAC entries     : {learned}\n  \
             Total number of expired MAC entries     : {expired}\n  \
             Total number of evicted MAC entries     : {evicted}\n  \
             Total number of port moved MAC entries  : {moved}\n  \
             Total number of refused MAC entries     : {refused}\n",
            self.bridge
        )
    }

    fn json(&self) -> Value {
        stats_json(&self.stats)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn entries() -> Entries {
        let entry = |port_number, port: &str, vlan, last, age_seconds| v1::FdbEntry {
            port_number,
            port: port.to_owned(),
            vlan,
            mac: Some(testing::mac(last)),
            age_seconds,
        };
        let local = entry(4_294_967_294, "br0", 4095, 3, Some(299));
        Entries(vec![entry(1, "vm0", 0, 1, Some(7)), entry(12, "vm1", 10, 2, None), local])
    }

    #[test]
    fn show_text() {
        // The columns of ovs-appctl fdb/show.
        let want = " port  VLAN  MAC                Age
    1     0  02:00:00:00:00:01    7
   12    10  02:00:00:00:00:02  static
LOCAL  4095  02:00:00:00:00:03  299
";
        assert_eq!(entries().text(), want);
        assert_eq!(Entries(Vec::new()).text(), " port  VLAN  MAC                Age\n");
    }

    #[test]
    fn show_json() {
        let want = json!([
            { "port": "vm0", "port_number": 1, "vlan": 0, "mac": "02:00:00:00:00:01", "age": 7, "static": false },
            { "port": "vm1", "port_number": 12, "vlan": 10, "mac": "02:00:00:00:00:02", "age": null, "static": true },
            {
                "port": "br0", "port_number": 4_294_967_294_u32, "vlan": 4095, "mac": "02:00:00:00:00:03", "age": 299,
                "static": false,
            },
        ]);
        assert_eq!(entries().json(), want);
    }

    #[test]
    fn stats_both_ways() {
        let stats = v1::FdbStats {
            entries: 3,
            statics: 1,
            limit: 8192,
            learned: 9,
            expired: 4,
            evicted: 5,
            moved: 6,
            refused: 7,
        };
        let stats = Stats { bridge: "br0".to_owned(), stats };
        let want = "\
Statistics for bridge \"br0\":
  Current/maximum MAC entries in the table: 3/8192
  Current static MAC entries in the table : 1
  Total number of learned MAC entries     : 9
  Total number of expired MAC entries     : 4
  Total number of evicted MAC entries     : 5
  Total number of port moved MAC entries  : 6
  Total number of refused MAC entries     : 7
";
        assert_eq!(stats.text(), want);
        let want = json!({
            "entries": 3, "static": 1, "limit": 8192, "learned": 9, "expired": 4, "evicted": 5, "moved": 6, "refused": 7,
        });
        assert_eq!(stats.json(), want);
        assert_eq!(Flushed(2).text(), "flushed 2 addresses\n");
        assert_eq!(Flushed(2).json(), json!({ "flushed": 2 }));
    }
}
