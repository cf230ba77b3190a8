//! Screens as they are drawn.

use super::super::reading::{Data, Reading};
use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Instant;
use vswitch_proto::v1;

/// The lines of a screen.
fn screen(state: &mut State, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    terminal.draw(|frame| draw(frame, state)).expect("it draws");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn drop_of(reason: &str, port: &str, rate: f64) -> v1::PortDrops {
    v1::PortDrops {
        bridge: "br0".to_owned(),
        port: port.to_owned(),
        direction: v1::DropDirection::Out.into(),
        reason: reason.to_owned(),
        class: "policy".to_owned(),
        total: 7,
        rates: Some(v1::DropRates { last_1s: rate, last_10s: rate, last_60s: rate }),
        pod: "shop/web-0".to_owned(),
        ..Default::default()
    }
}

fn state(drops: Vec<v1::PortDrops>) -> State {
    let mut state = State::new(TopPage::Drops);
    state.take(Ok(Reading::of(Data::Drops(drops))), "12:00:00".to_owned());
    state
}

#[test]
fn a_screen_of_80_by_24() {
    let mut state = state(vec![drop_of("rule_drop", "web-0", 10.0), drop_of("tx_full", "guest1", 2500.0)]);
    let screen = screen(&mut state, 80, 24);
    let want = [
        "vsctl top  1 workers  2 ports [3 drops] 4 connections  5 policies  12:00:00",
        "by 1 S, most first",
        "drops in the last second: 2.51k/s; by class: policy 2.51k/s",
        "`vsctl drops explain REASON` has the cause and the remedy",
        "",
        "REASON     CLASS   PORT    WAY    1 S   10 S   60 S  DROPS  BRIDGE  POD",
        "tx_full    policy  guest1  out  2.50k  2.50k  2.50k      7  br0     shop/web-0",
        "rule_drop  policy  web-0   out   10.0   10.0   10.0      7  br0     shop/web-0",
    ];
    assert_eq!(screen[..want.len()], want);
    assert_eq!(screen[23], KEYS);
    assert!(screen[want.len()..23].iter().all(String::is_empty), "{screen:#?}");
}

#[test]
fn what_has_no_room_is_cut_hidden_and_counted() {
    let mut state = state(vec![drop_of("rule_drop", "a-name-of-many-letters-and-more", 10.0)]);
    let narrow = screen(&mut state, 40, 12);
    assert!(narrow[1].ends_with("6 columns hidden"), "{narrow:#?}");
    let wrapped = ["drops in the last second: 10.0/s; by", "class: policy 10.0/s"];
    assert_eq!(narrow[2..4], wrapped);
    assert_eq!(narrow[7], "REASON     CLASS   PORT              WAY");
    assert_eq!(narrow[8], "rule_drop  policy  a-name-of-many-…  out");
    for (width, height) in [(1, 1), (10, 3), (80, 5), (300, 100)] {
        assert_eq!(screen(&mut state, width, height).len(), usize::from(height));
    }
}

#[test]
fn long_tables_scroll_and_end_at_their_end() {
    let drops = (0..100).map(|port| drop_of("csum", &format!("p{port:02}"), 100.0 - f64::from(port))).collect();
    let mut state = state(drops);
    let first = screen(&mut state, 80, 24);
    assert!(first[1].ends_with("rows 1-17 of 100") && first[6].contains(" p00 "), "{first:#?}");
    state.scroll = usize::MAX;
    let last = screen(&mut state, 80, 24);
    assert!(last[1].ends_with("rows 84-100 of 100") && last[22].contains(" p99 "), "{last:#?}");
}

#[test]
fn a_page_without_rows_says_why() {
    let mut state = State::new(TopPage::Policies);
    assert_eq!(screen(&mut state, 80, 24)[1], "", "nothing was read yet");
    state.take(Ok(Reading::of(Data::Policies(None))), "12:00:00".to_owned());
    let shown = screen(&mut state, 80, 24);
    assert!(shown.iter().any(|line| line.starts_with("(no Node: no agent has declared one")), "{shown:#?}");
}

#[test]
fn a_switch_that_is_away_is_told_over_what_was_known() {
    let mut state = state(vec![drop_of("rule_drop", "web-0", 10.0)]);
    state.take(Err("connection\nrefused".to_owned()), "12:00:07".to_owned());
    let away = screen(&mut state, 80, 24);
    assert!(away[1].starts_with("no answer since 12:00:07, trying again: connection"), "{away:#?}");
    assert!(away[6].starts_with("rule_drop"), "{away:#?}");
    state.connection = Connection::Back { since: "12:00:07".to_owned(), at: Instant::now() };
    let back = screen(&mut state, 80, 24);
    assert!(back[1].starts_with("the switch answers again (it had not since 12:00:07); by 1 S"), "{back:#?}");
    state.is_paused = true;
    assert!(screen(&mut state, 80, 24)[1].contains("; paused; "));
}

#[test]
fn an_alarm_comes_first() {
    let panicked = v1::Worker { core: 3, panicked: Some("index out of bounds".to_owned()), ..Default::default() };
    let mut state = State::new(TopPage::Workers);
    state.take(Ok(Reading::of(Data::Workers(vec![panicked]))), "12:00:00".to_owned());
    let shown = screen(&mut state, 80, 24);
    assert_eq!(shown[2], "the worker on core 3 has panicked: index out of bounds");
}
