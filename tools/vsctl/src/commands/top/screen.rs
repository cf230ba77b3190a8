//! The screen.
//!
//! **Design.** From above: pages, state, lines of the page, its table, keys. A table that is too
//! wide gets narrower names first, then loses columns from the right; the line of the state counts
//! them. Lines are wrapped.

use super::sheet::{Column, Sheet};
use super::state::{Connection, State};
use crate::cli::TopPage;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use vswitch_net_types::shown;

const KEYS: &str = "q quit  1-5 Tab page  < > sort by  r reverse  p pause  arrows scroll";

/// Blanks between columns.
const GAP: u16 = 2;

/// Characters that a name keeps at least before columns go.
const NAME_MIN: usize = 16;

/// Draws all of it. Takes down how many rows there was room for.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let sheet = state.sheet();
    let width = usize::from(frame.area().width);
    let mut above = Vec::new();
    if let Some(alarm) = sheet.as_ref().and_then(|sheet| sheet.alarm.as_deref()) {
        above.extend(wrapped(alarm, width).into_iter().map(|line| Line::styled(line, alarmed())));
    }
    for line in sheet.iter().flat_map(|sheet| &sheet.lines) {
        above.extend(wrapped(line, width).into_iter().map(Line::raw));
    }
    let lines = u16::try_from(above.len()).unwrap_or(u16::MAX);
    let [title, status, facts, _, table, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(lines),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(pages(state), title);
    frame.render_widget(Paragraph::new(above), facts);
    let hidden = match &sheet {
        Some(sheet) => rows(frame, state, sheet, table),
        None => 0,
    };
    frame.render_widget(status_line(state, sheet.as_ref(), hidden), status);
    frame.render_widget(Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)), keys);
}

fn alarmed() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// The names of the pages, and the time of what is shown.
fn pages(state: &State) -> Line<'static> {
    let page = |(number, page): (usize, TopPage)| {
        let text = format!("{} {}", number + 1, page.word());
        if page == state.page {
            Span::styled(format!("[{text}]"), Style::new().add_modifier(Modifier::REVERSED))
        } else {
            Span::raw(format!(" {text} "))
        }
    };
    let mut spans = vec![Span::styled("vsctl top ", Style::new().add_modifier(Modifier::BOLD))];
    spans.extend(TopPage::ALL.into_iter().enumerate().map(page));
    spans.push(Span::raw(format!(" {}", state.time)));
    Line::from(spans)
}

/// Whether the switch answers; else the order and what is not to be seen.
fn status_line(state: &State, sheet: Option<&Sheet>, hidden: usize) -> Line<'static> {
    let order = state.order();
    let parts = match &state.connection {
        Connection::Away { since, reason } => {
            return Line::styled(format!("no answer since {since}, trying again: {}", shown(reason)), alarmed());
        }
        Connection::Back { since, .. } => vec![format!("the switch answers again (it had not since {since})")],
        Connection::Up => Vec::new(),
    };
    let mut parts = parts;
    if state.is_paused {
        parts.push("paused".to_owned());
    }
    // Rates of drops are the switch's own.
    if let Some(seconds) = state.seconds().filter(|_| state.page != TopPage::Drops) {
        parts.push(format!("rates of {seconds:.1} s"));
    }
    if let Some(column) = sheet.and_then(|sheet| sheet.columns.get(order.column)) {
        let way = match (column.is_number, order.is_descending) {
            (true, true) => "most first",
            (true, false) => "least first",
            (false, true) => "Z first",
            (false, false) => "A first",
        };
        parts.push(format!("by {}, {way}", column.heading));
    }
    if let Some(sheet) = sheet.filter(|sheet| sheet.rows.len() > state.room) {
        let (first, all) = (state.scroll + 1, sheet.rows.len());
        parts.push(format!("rows {first}-{} of {all}", all.min(state.scroll + state.room)));
    }
    if hidden > 0 {
        parts.push(format!("{hidden} columns hidden"));
    }
    Line::from(parts.join("; "))
}

/// The table. Returns how many columns have no room.
fn rows(frame: &mut Frame<'_>, state: &mut State, sheet: &Sheet, area: Rect) -> usize {
    if sheet.rows.is_empty() {
        let lines = wrapped(&format!("({})", sheet.nothing), area.width.into());
        frame.render_widget(Paragraph::new(lines.into_iter().map(Line::raw).collect::<Vec<_>>()), area);
        return 0;
    }
    state.room = usize::from(area.height.saturating_sub(1)).max(1);
    state.scroll = state.scroll.min(sheet.rows.len().saturating_sub(state.room));
    let texts: Vec<Vec<String>> =
        sheet.rows.iter().map(|row| row.cells.iter().map(super::sheet::Cell::shown).collect()).collect();
    let widths = widths(sheet.columns, &texts, area.width);
    let sorted = state.order().column;
    let heading = |(index, (column, width)): (usize, (&Column, &u16))| {
        let style = Style::new().add_modifier(Modifier::BOLD);
        let style = if index == sorted { style.add_modifier(Modifier::UNDERLINED) } else { style };
        cell(column, column.heading, *width).style(style)
    };
    let header = Row::new(sheet.columns.iter().zip(&widths).enumerate().map(heading));
    let row = |texts: &Vec<String>| {
        let cells = sheet.columns.iter().zip(texts).zip(&widths);
        Row::new(cells.map(|((column, text), width)| cell(column, text, *width)))
    };
    let rows = texts.iter().skip(state.scroll).take(state.room).map(row);
    let table = Table::new(rows, widths.iter().map(|width| Constraint::Length(*width)));
    frame.render_widget(table.header(header).column_spacing(GAP), area);
    sheet.columns.len() - widths.len()
}

fn cell(column: &Column, text: &str, width: u16) -> Cell<'static> {
    let line = Line::from(cut(text, width.into()));
    Cell::from(if column.is_number { line.alignment(Alignment::Right) } else { line })
}

/// Widths of the columns that there is room for: of names less than they would take, if need be.
fn widths(columns: &[Column], rows: &[Vec<String>], room: u16) -> Vec<u16> {
    let widest = |index: usize, column: &Column| {
        let of_rows = rows.iter().filter_map(|row| row.get(index)).map(|text| text.chars().count());
        of_rows.max().unwrap_or(0).max(column.heading.len())
    };
    let mut widths: Vec<usize> = columns.iter().enumerate().map(|(index, column)| widest(index, column)).collect();
    let (gap, room) = (usize::from(GAP), usize::from(room));
    loop {
        let all = widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1);
        let Some(excess) = all.checked_sub(room).filter(|excess| *excess > 0) else { break };
        let names = widths.iter_mut().zip(columns).filter(|(width, column)| !column.is_number && **width > NAME_MIN);
        if let Some((width, _)) = names.max_by_key(|(width, _)| **width) {
            *width = NAME_MIN.max(width.saturating_sub(excess));
        } else if widths.len() > 1 {
            widths.pop();
        } else {
            break;
        }
    }
    widths.into_iter().map(|width| u16::try_from(width).unwrap_or(u16::MAX)).collect()
}

/// So much of a text as has room. What was cut is marked.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A text in lines of this width, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in shown(text).split(' ') {
        let line = lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width);
        match line {
            Some(line) if !line.is_empty() => *line = format!("{line} {word}"),
            Some(line) => word.clone_into(line),
            None => lines.push(word.to_owned()),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
