//! The page of ports.

use super::before::Before;
use super::sheet::{Cell, Column, Sheet, name, number, rounded};
use vswitch_proto::v1;

const COLUMNS: &[Column] = &[
    name("BRIDGE", "bridge"),
    name("PORT", "port"),
    name("LINK", "link"),
    number("RX P/S", "rx_packets_per_second"),
    number("RX BIT/S", "rx_bits_per_second"),
    number("TX P/S", "tx_packets_per_second"),
    number("TX BIT/S", "tx_bits_per_second"),
    number("DROPS/S", "drops_per_second"),
    name("TYPE", "type"),
];

/// Where the page has its rates: packets received per second.
pub(super) const MAIN: usize = 3;

/// The page.
pub(super) fn sheet(ports: &[v1::PortStatistics], before: Option<Before<'_, Vec<v1::PortStatistics>>>) -> Sheet {
    let mut sheet = Sheet::new(COLUMNS, "no ports; add one: vsctl add-port");
    let mut sums = [None; 5];
    for statistics in ports {
        let (bridge, port) = (&port(statistics).bridge, port(statistics));
        let rates = rates(statistics, before);
        for (sum, rate) in sums.iter_mut().zip(rates) {
            *sum = rate.map_or(*sum, |rate| Some(sum.unwrap_or(0.0) + rate));
        }
        let mut cells = vec![Cell::text(bridge), Cell::text(own_name(&port)), Cell::text(link(&port))];
        cells.extend(rates.map(Cell::Rate));
        cells.push(Cell::text(&port.r#type));
        sheet.row(cells);
    }
    let links = ports.iter().filter(|statistics| port(statistics).link_up).count();
    let [rx, rx_bits, tx, tx_bits, drops] = sums.map(|sum| sum.map_or("-".to_owned(), rounded));
    sheet.lines.push(format!("ports: {}, with link: {links}, drops: {drops}/s", ports.len()));
    sheet.lines.push(format!("all: rx {rx} packets/s, {rx_bits} bit/s; tx {tx} packets/s, {tx_bits} bit/s"));
    sheet.fact("ports", ports.len());
    sheet.fact("with_link", links);
    for (column, sum) in COLUMNS[MAIN..].iter().zip(sums) {
        sheet.fact(column.key, sum);
    }
    sheet
}

fn port(statistics: &v1::PortStatistics) -> v1::Port {
    statistics.port.clone().unwrap_or_default()
}

fn own_name(port: &v1::Port) -> String {
    port.config.as_ref().map_or_else(String::new, |config| config.name.clone())
}

/// Why nothing passes, or that something may.
fn link(port: &v1::Port) -> &'static str {
    let is_off = port.config.as_ref().is_some_and(|config| config.admin_up == Some(false));
    match (&port.error, is_off, port.link_up) {
        (Some(_), ..) => "error",
        (None, true, _) => "off",
        (None, false, true) => "up",
        (None, false, false) => "down",
    }
}

/// Packets and bits in, packets and bits out, drops.
fn rates(now: &v1::PortStatistics, before: Option<Before<'_, Vec<v1::PortStatistics>>>) -> [Option<f64>; 5] {
    let key = |statistics: &v1::PortStatistics| (port(statistics).bridge, own_name(&port(statistics)));
    let found = before.and_then(|before| {
        let old = before.data.iter().find(|old| key(old) == key(now))?;
        Some((old, before.seconds))
    });
    let Some((old, seconds)) = found else { return [None; 5] };
    let rate = |count: fn(&v1::PortStatistics) -> u64, factor: f64| {
        let more = count(now).checked_sub(count(old))?;
        Some(super::before::per_second(more, seconds) * factor)
    };
    [
        rate(|port| port.rx_packets, 1.0),
        rate(|port| port.rx_bytes, 8.0),
        rate(|port| port.tx_packets, 1.0),
        rate(|port| port.tx_bytes, 8.0),
        rate(|port| port.rx_dropped.saturating_add(port.tx_dropped), 1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::testing;

    fn counted(port: v1::Port, packets: u64) -> v1::PortStatistics {
        v1::PortStatistics {
            port: Some(port),
            rx_packets: packets,
            rx_bytes: packets * 1000,
            rx_dropped: packets / 10,
            tx_dropped: 1,
            ..Default::default()
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_readings() {
        let mut others = testing::bridges()[0].ports.clone();
        let old = vec![counted(testing::guest(), 1000), counted(others[2].clone(), 500)];
        let now = vec![counted(testing::guest(), 5000), counted(others.remove(1), 9), counted(testing::local(), 1)];
        let sheet = sheet(&now, Some(Before { data: &old, seconds: 2.0 }));
        let want = "\
ports: 3, with link: 2, drops: 200/s
all: rx 2.00k packets/s, 16.0M bit/s; tx 0.0 packets/s, 0.0 bit/s
BRIDGE  PORT  LINK   RX P/S  RX BIT/S  TX P/S  TX BIT/S  DROPS/S  TYPE
br0     vm0   up      2.00k     16.0M     0.0       0.0      200  vhost-user
br0     up0   error       -         -       -         -        -  dpdk
br0     br0   up          -         -     0.0       0.0        -  internal
";
        assert_eq!(sheet.text(), want, "a new port, and one that was opened again, have no rates");
        assert_eq!(sheet.facts["rx_bits_per_second"], 16_000_000.0);
    }

    #[test]
    fn the_link_says_why_nothing_passes() {
        let mut port = testing::guest();
        assert_eq!(link(&port), "up");
        port.link_up = false;
        assert_eq!(link(&port), "down");
        port.config.get_or_insert_default().admin_up = Some(false);
        assert_eq!(link(&port), "off");
        port.error = Some("no such device".to_owned());
        assert_eq!(link(&port), "error");
    }
}
