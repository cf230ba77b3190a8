//! What the screen shows at the moment, and what keys change of it.

use super::reading::{Reading, first_order};
use super::sheet::{Order, Sheet};
use crate::cli::TopPage;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::{Duration, Instant};

/// How long the screen says that the switch answers again.
const RETURN_SHOWN: Duration = Duration::from_secs(10);

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To draw again.
    Draw,
    /// To read the page now.
    Read,
    /// To end.
    Quit,
}

/// Why the numbers may not be those of now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// They are.
    Up,
    /// The switch has not answered since then.
    Away { since: String, reason: String },
    /// It answers again. It had not answered since then.
    Back { since: String, at: Instant },
}

/// All of it.
#[derive(Debug)]
pub(super) struct State {
    /// The page that is shown.
    pub(super) page: TopPage,
    /// No readings at present.
    pub(super) is_paused: bool,
    /// Rows in front of the first one that is shown.
    pub(super) scroll: usize,
    /// Rows that the screen had room for.
    pub(super) room: usize,
    /// Whether the switch answers.
    pub(super) connection: Connection,
    /// When the last reading came, for people.
    pub(super) time: String,
    orders: [Order; TopPage::ALL.len()],
    before: Option<Reading>,
    now: Option<Reading>,
}

impl State {
    pub(super) fn new(page: TopPage) -> Self {
        Self {
            page,
            is_paused: false,
            scroll: 0,
            room: 1,
            connection: Connection::Up,
            time: String::new(),
            orders: TopPage::ALL.map(first_order),
            before: None,
            now: None,
        }
    }

    /// Takes what a reading came to. Rates never reach over a time without answers.
    pub(super) fn take(&mut self, reading: Result<Reading, String>, time: String) {
        match reading {
            Ok(reading) => {
                self.before = self.now.take().filter(|_| !matches!(self.connection, Connection::Away { .. }));
                self.now = Some(reading);
                self.connection = match std::mem::replace(&mut self.connection, Connection::Up) {
                    Connection::Away { since, .. } => Connection::Back { since, at: Instant::now() },
                    Connection::Back { at, .. } if at.elapsed() >= RETURN_SHOWN => Connection::Up,
                    other => other,
                };
                self.time = time;
            }
            Err(reason) => match &mut self.connection {
                Connection::Away { reason: known, .. } => *known = reason,
                _ => self.connection = Connection::Away { since: time, reason },
            },
        }
    }

    /// What is shown, in order; nothing before the first reading of the page.
    pub(super) fn sheet(&self) -> Option<Sheet> {
        let mut sheet = self.now.as_ref()?.sheet(self.before.as_ref());
        sheet.sort(self.order());
        Some(sheet)
    }

    /// Seconds that rates are of.
    pub(super) fn seconds(&self) -> Option<f64> {
        Some(self.now.as_ref()?.since(self.before.as_ref()?))
    }

    /// The order of rows.
    pub(super) fn order(&self) -> Order {
        self.orders[self.page as usize]
    }

    fn show(&mut self, page: TopPage) -> Wish {
        if page != self.page {
            (self.page, self.scroll, self.before, self.now) = (page, 0, None, None);
        }
        Wish::Read
    }

    fn neighbour(&self, step: usize) -> TopPage {
        TopPage::ALL[(self.page as usize + step) % TopPage::ALL.len()]
    }

    fn sort_by(&mut self, step: isize, columns: usize) {
        let order = &mut self.orders[self.page as usize];
        order.column = order.column.saturating_add_signed(step).min(columns.saturating_sub(1));
    }

    /// What a key does. `columns`: as many as the table has.
    pub(super) fn key(&mut self, key: KeyEvent, columns: usize) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Draw;
        }
        let page = |state: &Self, step| state.neighbour(step);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wish::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Char(digit @ '1'..='5') => return self.show(TopPage::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab => return self.show(page(self, 1)),
            KeyCode::BackTab => return self.show(page(self, TopPage::ALL.len() - 1)),
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return if self.is_paused { Wish::Draw } else { Wish::Read };
            }
            KeyCode::Char('r') => {
                let order = &mut self.orders[self.page as usize];
                order.is_descending = !order.is_descending;
            }
            KeyCode::Left | KeyCode::Char('<') => self.sort_by(-1, columns),
            KeyCode::Right | KeyCode::Char('>') => self.sort_by(1, columns),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down => self.scroll = self.scroll.saturating_add(1),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(self.room),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(self.room),
            KeyCode::Home => self.scroll = 0,
            KeyCode::End => self.scroll = usize::MAX,
            _ => {}
        }
        Wish::Draw
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::Data;
    use super::*;

    fn state() -> State {
        State::new(TopPage::Drops)
    }

    fn press(state: &mut State, code: KeyCode) -> Wish {
        state.key(KeyEvent::new(code, KeyModifiers::NONE), 3)
    }

    fn reading() -> Result<Reading, String> {
        Ok(Reading::of(Data::Drops(Vec::new())))
    }

    #[test]
    fn keys_choose_the_page() {
        let mut state = state();
        assert_eq!(press(&mut state, KeyCode::Tab), Wish::Read);
        assert_eq!(state.page, TopPage::Connections);
        press(&mut state, KeyCode::Char('5'));
        press(&mut state, KeyCode::Tab);
        assert_eq!(state.page, TopPage::Workers);
        press(&mut state, KeyCode::BackTab);
        assert_eq!(state.page, TopPage::Policies);
        for quits in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut state, quits), Wish::Quit);
        }
        assert_eq!(state.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), 3), Wish::Quit);
        assert_eq!(press(&mut state, KeyCode::Char('c')), Wish::Draw);
    }

    #[test]
    fn another_page_begins_without_readings() {
        let mut state = state();
        state.take(reading(), "12:00:00".to_owned());
        assert!(state.sheet().is_some());
        press(&mut state, KeyCode::Char('3'));
        assert!(state.sheet().is_some(), "it was that page");
        press(&mut state, KeyCode::Char('2'));
        assert!(state.sheet().is_none());
    }

    #[test]
    fn keys_change_the_order_and_stay_within_the_columns() {
        let mut state = state();
        assert_eq!(state.order(), Order::most(4));
        press(&mut state, KeyCode::Right);
        assert_eq!(state.order(), Order::most(2), "the table has three");
        for _ in 0..9 {
            press(&mut state, KeyCode::Char('<'));
        }
        press(&mut state, KeyCode::Char('r'));
        assert_eq!(state.order(), Order { column: 0, is_descending: false });
        press(&mut state, KeyCode::Char('2'));
        assert_eq!(state.order(), Order::most(3), "each page has its own");
    }

    #[test]
    fn a_pause_ends_with_a_reading() {
        let mut state = state();
        assert_eq!((press(&mut state, KeyCode::Char('p')), state.is_paused), (Wish::Draw, true));
        assert_eq!((press(&mut state, KeyCode::Char(' ')), state.is_paused), (Wish::Read, false));
    }

    #[test]
    fn rows_scroll() {
        let mut state = state();
        state.room = 10;
        for (code, want) in [
            (KeyCode::Up, 0),
            (KeyCode::PageDown, 10),
            (KeyCode::Down, 11),
            (KeyCode::PageUp, 1),
            (KeyCode::End, usize::MAX),
            (KeyCode::Home, 0),
        ] {
            press(&mut state, code);
            assert_eq!(state.scroll, want, "{code:?}");
        }
    }

    #[test]
    fn a_switch_that_was_away_is_told_and_gives_no_rates_across() {
        let mut state = state();
        state.take(reading(), "12:00:00".to_owned());
        state.take(reading(), "12:00:01".to_owned());
        assert!(state.seconds().is_some());
        state.take(Err("refused".to_owned()), "12:00:02".to_owned());
        state.take(Err("no such file".to_owned()), "12:00:03".to_owned());
        let away = Connection::Away { since: "12:00:02".to_owned(), reason: "no such file".to_owned() };
        assert_eq!((&state.connection, state.time.as_str()), (&away, "12:00:01"));
        assert!(state.sheet().is_some(), "what was known stays");
        state.take(reading(), "12:00:04".to_owned());
        assert!(matches!(&state.connection, Connection::Back { since, .. } if since == "12:00:02"));
        assert_eq!(state.seconds(), None);
        state.take(reading(), "12:00:05".to_owned());
        assert!(state.seconds().is_some());
        assert!(matches!(state.connection, Connection::Back { .. }), "for a while");
    }
}
