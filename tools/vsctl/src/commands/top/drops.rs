//! The page of drops.

use super::sheet::{Cell, Column, Sheet, name, number, rounded};
use crate::commands::drops::way;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use vswitch_proto::v1;

const COLUMNS: &[Column] = &[
    name("REASON", "reason"),
    name("CLASS", "class"),
    name("PORT", "port"),
    name("WAY", "direction"),
    number("1 S", "last_1s"),
    number("10 S", "last_10s"),
    number("60 S", "last_60s"),
    number("DROPS", "total"),
    name("BRIDGE", "bridge"),
    name("POD", "pod"),
];

/// Where the page has its rates: drops of the last second.
pub(super) const MAIN: usize = 4;

/// The page. The switch has the rates.
pub(super) fn sheet(drops: &[v1::PortDrops]) -> Sheet {
    let mut sheet = Sheet::new(COLUMNS, "no packet was dropped");
    let mut classes: BTreeMap<&str, f64> = BTreeMap::new();
    for drop in drops {
        let rate = |part: fn(&v1::DropRates) -> f64| Cell::Rate(drop.rates.as_ref().map(part));
        *classes.entry(&drop.class).or_default() += drop.rates.as_ref().map_or(0.0, |rates| rates.last_1s);
        sheet.row(vec![
            Cell::text(&drop.reason),
            Cell::text(&drop.class),
            Cell::text(&drop.port),
            Cell::text(way(drop.direction())),
            rate(|rates| rates.last_1s),
            rate(|rates| rates.last_10s),
            rate(|rates| rates.last_60s),
            Cell::Count(Some(drop.total)),
            Cell::text(&drop.bridge),
            Cell::text(&drop.pod),
        ]);
    }
    let all: f64 = classes.values().sum();
    let by_class: Vec<_> = classes.iter().map(|(class, rate)| format!("{class} {}/s", rounded(*rate))).collect();
    let by_class = if by_class.is_empty() { "none".to_owned() } else { by_class.join(", ") };
    sheet.lines.push(format!("drops in the last second: {}/s; by class: {by_class}", rounded(all)));
    sheet.lines.push("`vsctl drops explain REASON` has the cause and the remedy".to_owned());
    sheet.fact("last_1s", all);
    let classes = classes.into_iter().map(|(class, rate)| (class.to_owned(), rate.into()));
    sheet.fact("classes_last_1s", classes.collect::<Map<String, Value>>());
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::sheet::Order;

    #[test]
    fn drops_have_the_rates_of_the_switch() {
        let drop = |reason: &str, class: &str, rate: Option<f64>| v1::PortDrops {
            bridge: "br0".to_owned(),
            port: "p1".to_owned(),
            direction: v1::DropDirection::In.into(),
            reason: reason.to_owned(),
            class: class.to_owned(),
            total: 100,
            rates: rate.map(|last_1s| v1::DropRates { last_1s, last_10s: 2.0, last_60s: 1.0 }),
            ..Default::default()
        };
        let drops = [
            drop("csum", "malformed", None),
            drop("oversize", "config", Some(3.0)),
            drop("rule_drop", "policy", Some(5000.0)),
        ];
        let mut sheet = sheet(&drops);
        sheet.sort(Order::most(MAIN));
        let want = "\
drops in the last second: 5.00k/s; by class: config 3.0/s, malformed 0.0/s, policy 5.00k/s
`vsctl drops explain REASON` has the cause and the remedy
REASON     CLASS      PORT  WAY    1 S  10 S  60 S  DROPS  BRIDGE  POD
rule_drop  policy     p1    in   5.00k   2.0   1.0    100  br0     -
oversize   config     p1    in     3.0   2.0   1.0    100  br0     -
csum       malformed  p1    in       -     -     -    100  br0     -
";
        assert_eq!(sheet.text(), want);
    }

    #[test]
    fn no_drop_is_told() {
        let text = sheet(&[]).text();
        assert!(text.contains("by class: none") && text.ends_with("(no packet was dropped)\n"), "{text}");
    }
}
