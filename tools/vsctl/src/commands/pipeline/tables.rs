//! Tables.

use crate::client::Client;
use crate::output::{Answer, Done, Report};
use serde_json::{Value, json};
use std::fmt::Write;
use vswitch_proto::v1;

pub(super) async fn add(client: &Client, bridge: &str, name: &str, number: Option<u32>) -> Answer {
    let request = v1::AddTableRequest { bridge: bridge.to_owned(), name: name.to_owned(), number };
    Ok(Box::new(Added(client.answer(client.tables().await?.add_table(request).await)?.number)))
}

pub(super) async fn delete(client: &Client, bridge: &str, name: &str) -> Answer {
    let request = v1::DeleteTableRequest { bridge: bridge.to_owned(), name: name.to_owned() };
    client.answer(client.tables().await?.delete_table(request).await)?;
    Ok(Box::new(Done))
}

pub(super) async fn dump(client: &Client, bridge: &str) -> Answer {
    let request = v1::ListTablesRequest { bridge: bridge.to_owned() };
    Ok(Box::new(Tables(client.answer(client.tables().await?.list_tables(request).await)?.tables)))
}

/// `add-table`.
struct Added(u32);

impl Report for Added {
    fn text(&self) -> String {
        format!("{}\n", self.0)
    }

    fn json(&self) -> Value {
        json!({ "table": self.0 })
    }
}

/// `dump-tables`, as ovs-ofctl prints it, without the tables that have neither name nor flows.
struct Tables(Vec<v1::Table>);

impl Report for Tables {
    fn text(&self) -> String {
        let mut text = "OFPST_TABLE reply (OF1.5) (xid=0x2):\n".to_owned();
        for (i, table) in self.0.iter().enumerate() {
            let name = if table.name.is_empty() { String::new() } else { format!(" (\"{}\")", table.name) };
            let blank = if i == 0 { "" } else { "\n" };
            let _ = writeln!(text, "{blank}  table {}{name}:", table.number);
            let _ = write!(text, "    active={}, lookup={}, matched={}", table.flows, table.lookups, table.matches);
            // Open vSwitch has no such limit, and no number for it.
            if table.learn_refused > 0 {
                let _ = write!(text, ", learn_refused={}", table.learn_refused);
            }
            text.push('\n');
        }
        text
    }

    fn json(&self) -> Value {
        let table = |table: &v1::Table| {
            let name = (!table.name.is_empty()).then_some(&table.name);
            json!({
                "table": table.number,
                "name": name,
                "flows": table.flows,
                "lookups": table.lookups,
                "matches": table.matches,
                "learn_refused": table.learn_refused,
            })
        };
        self.0.iter().map(table).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        let table = |number, name: &str, flows| v1::Table {
            number,
            name: name.to_owned(),
            flows,
            lookups: 5,
            matches: 4,
            learn_refused: 0,
        };
        let full = v1::Table { learn_refused: 7, ..table(253, "", 1) };
        let tables = Tables(vec![table(0, "Classifier", 3), full]);
        let want = "\
OFPST_TABLE reply (OF1.5) (xid=0x2):
  table 0 (\"Classifier\"):
    active=3, lookup=5, matched=4

  table 253:
    active=1, lookup=5, matched=4, learn_refused=7
";
        assert_eq!(tables.text(), want);
        assert_eq!(
            tables.json()[0],
            json!({ "table": 0, "name": "Classifier", "flows": 3, "lookups": 5, "matches": 4, "learn_refused": 0 })
        );
        assert_eq!(tables.json()[1]["name"], Value::Null);
        assert_eq!(Added(7).text(), "7\n");
    }
}
