//! What people see: tables and colour on a terminal, plain text in a pipe, JSON when asked for.
//!
//! Colour goes only to a terminal, and never when `NO_COLOR` is set. A table that can be narrowed
//! is as narrow as its terminal; in a pipe it is whole.

use std::io::{IsTerminal, Write};

use landfall_core::plain;
use landfall_core::plain::fit;
use serde_json::Value;

/// A style of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Dim,
    Bold,
    Good,
    Warn,
    Bad,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Dim => "\x1b[2m",
            Style::Bold => "\x1b[1m",
            Style::Good => "\x1b[32m",
            Style::Warn => "\x1b[33m",
            Style::Bad => "\x1b[31m",
        }
    }
}

/// Where a command's answer goes.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    pub json: bool,
    pub colour: bool,
    pub terminal: bool,
    /// Columns of the terminal, if it is one that tells.
    pub columns: Option<usize>,
}

impl Show {
    pub fn on_stdout(json: bool) -> Show {
        let terminal = std::io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Show { json, colour: may_colour(terminal), terminal, columns }
    }

    pub fn paint(&self, style: Style, text: &str) -> String {
        match (self.colour, style) {
            (false, _) | (_, Style::Plain) => text.to_owned(),
            (true, style) => format!("{}{text}\x1b[0m", style.code()),
        }
    }

    pub fn line(&self, text: &str) {
        say(text);
    }

    /// A text that begins at a column, after a head of that width, and keeps to it on a terminal.
    pub fn text_at(&self, column: usize, head: &str, text: &str) {
        let room =
            self.columns.filter(|_| self.terminal).map(|columns| columns - column.min(columns));
        let lines = match room {
            Some(room) if room >= ROOM_LEAST => in_lines(text, room),
            _ => vec![text.to_owned()],
        };
        let margin = " ".repeat(column);
        for (index, line) in lines.iter().enumerate() {
            self.line(&format!("{}{line}", if index == 0 { head } else { &margin }));
        }
    }

    pub fn value(&self, value: &Value) {
        let text = match self.terminal {
            true => serde_json::to_string_pretty(value).unwrap_or_default(),
            false => value.to_string(),
        };
        self.line(&text);
    }

    pub fn table(&self, table: &Table) {
        self.line(table.render(self).trim_end_matches('\n'));
    }
}

/// Whether what goes there may have colours.
pub fn may_colour(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Our own colours and line ends: nothing else that a terminal obeys reaches one.
const OURS: [&str; 7] = ["\n", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// Text on standard output.
pub fn say(text: &str) {
    // A closed pipe (`| head`) is no failure of ours.
    let _ = writeln!(std::io::stdout(), "{}", fit(text, &OURS));
    let _ = std::io::stdout().flush();
}

/// Text on standard error.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", fit(text, &OURS));
}

/// Where log lines go: standard error, with no more than a log's own colours in them.
pub struct LogWriter;

/// As the log has them.
const LOG_COLOURS: [&str; 12] = [
    "\n", "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[31m", "\x1b[32m",
    "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m",
];

impl Write for LogWriter {
    /// A whole event at a time.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        std::io::stderr().write_all(fit(&text, &LOG_COLOURS).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// A text in fewer columns would be a column of words.
const ROOM_LEAST: usize = 20;

/// Cut between words; one that is too long stays whole.
fn in_lines(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        let is_first = line.is_empty();
        if is_first || line.chars().count() + 1 + word.chars().count() <= room {
            line.push_str(if is_first { "" } else { " " });
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A number of things: "1 transfer", "2 transfers".
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Between two columns of a table.
const GAP: usize = 2;

/// Rows under a head, in columns as wide as their widest cell.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<(Style, String)>>,
    /// Columns whose cells may be cut on a narrow terminal, and to what.
    cuts: Vec<(&'static str, usize)>,
    /// Columns that a narrow terminal goes without, the first to go first.
    spares: Vec<&'static str>,
}

impl Table {
    pub fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), ..Table::default() }
    }

    /// How to make it fit a narrow terminal.
    pub fn narrowing(mut self, cuts: &[(&'static str, usize)], spares: &[&'static str]) -> Table {
        (self.cuts, self.spares) = (cuts.to_vec(), spares.to_vec());
        self
    }

    /// A cell is one line, whatever is in it.
    pub fn row(&mut self, cells: Vec<(Style, String)>) {
        let cells = cells.into_iter().map(|(style, cell)| (style, plain(&cell).into_owned()));
        self.rows.push(cells.collect());
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.head.iter().map(|name| name.len()).collect();
        for row in &self.rows {
            for (width, (_, cell)) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn least(&self, column: usize, width: usize) -> usize {
        let cut = self.cuts.iter().find(|(name, _)| *name == self.head[column]);
        cut.map_or(width, |(name, least)| width.min((*least).max(name.len())))
    }

    /// The width of each column; none for those that are left out.
    fn fitted(&self, columns: Option<usize>) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> = self.widths().into_iter().map(Some).collect();
        let Some(most) = columns else { return widths };
        let least = |widths: &[Option<usize>]| {
            let shown = widths.iter().enumerate();
            total(shown.filter_map(|(column, width)| width.map(|width| self.least(column, width))))
        };
        for spare in &self.spares {
            if least(&widths) <= most {
                break;
            }
            if let Some(column) = self.head.iter().position(|name| name == spare) {
                widths[column] = None;
            }
        }
        // The widest that may be cut gives way, until it fits or nothing is left to give.
        while total(widths.iter().flatten().copied()) > most {
            let can_give = |column: &usize| {
                widths[*column].is_some_and(|width| width > self.least(*column, width))
            };
            let widest = (0..widths.len()).filter(can_give).max_by_key(|column| widths[*column]);
            let Some(column) = widest else { break };
            widths[column] = widths[column].map(|width| width - 1);
        }
        widths
    }

    fn render(&self, show: &Show) -> String {
        let widths = self.fitted(show.columns);
        let head: Vec<(Style, String)> =
            self.head.iter().map(|name| (Style::Dim, (*name).to_owned())).collect();
        let mut text = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let cells = row.iter().zip(&widths).filter_map(|((style, cell), width)| {
                let width = (*width)?;
                let cell = ends(cell, width);
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                Some(format!("{}{padding}", show.paint(*style, &cell)))
            });
            text.push_str(cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end());
            text.push('\n');
        }
        text
    }
}

/// How wide columns of these widths are together.
fn total(widths: impl Iterator<Item = usize>) -> usize {
    let (columns, sum) = widths.fold((0, 0), |(columns, sum), width| (columns + 1, sum + width));
    sum + GAP * usize::saturating_sub(columns, 1)
}

/// A time as people and programs read it: RFC 3339, UTC.
pub fn time(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX))
}

/// How long something has lasted.
pub fn age(ms: u64) -> String {
    let minutes = ms / 60_000;
    match (minutes / 1_440, minutes / 60) {
        (0, 0) => format!("{minutes} min"),
        (0, hours) => format!("{hours} h {} min", minutes % 60),
        (days, hours) => format!("{days} d {} h", hours % 24),
    }
}

/// The head of a long text.
pub fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

/// Head and tail of a long text: what tells names apart is often at their end.
pub fn ends(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let tail = most.saturating_sub(1) / 2;
    let head = most.saturating_sub(1) - tail;
    let (first, last) = (&letters[..head], &letters[letters.len() - tail..]);
    format!("{}…{}", first.iter().collect::<String>(), last.iter().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["KEY", "STATUS"]);
        table.row(vec![(Style::Plain, "payroll-1".into()), (Style::Good, "COMPLETED".into())]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let show = Show { json: false, colour: false, terminal: false, columns: None };
        assert_eq!(table().render(&show), "KEY        STATUS\npayroll-1  COMPLETED\n");
    }

    #[test]
    fn a_cell_from_elsewhere_is_one_line_and_moves_nothing() {
        let show = Show { json: false, colour: false, terminal: true, columns: None };
        let mut table = Table::new(&["MEMO"]);
        table.row(vec![(Style::Plain, "\u{1b}[2J\npaid \u{202e}001".into())]);
        assert_eq!(table.render(&show), "MEMO\n\\u001b[2J\\u000apaid \\u202e001\n");
    }

    #[test]
    fn colour_is_for_terminals_alone() {
        let show = Show { json: false, colour: true, terminal: true, columns: None };
        assert!(table().render(&show).contains("\x1b[32mCOMPLETED\x1b[0m"));
    }

    fn narrow(columns: usize) -> String {
        let show = Show { json: false, colour: false, terminal: true, columns: Some(columns) };
        table().narrowing(&[("KEY", 5)], &["STATUS"]).render(&show)
    }

    #[test]
    fn a_narrow_terminal_cuts_what_may_be_cut_and_then_goes_without_what_can_be_spared() {
        assert_eq!(narrow(20), "KEY        STATUS\npayroll-1  COMPLETED\n");
        assert_eq!(narrow(17), "KEY     STATUS\npay…-1  COMPLETED\n");
        assert_eq!(narrow(15), "KEY\npayroll-1\n");
        assert_eq!(narrow(3), "KEY\npa…-1\n", "never below the least");
    }

    #[test]
    fn a_text_is_cut_between_words() {
        assert_eq!(in_lines("to be or not", 5), ["to be", "or", "not"]);
        assert_eq!(in_lines("a https://127.0.0.1 b", 5), ["a", "https://127.0.0.1", "b"]);
        assert_eq!(in_lines("", 5), [""]);
    }

    #[test]
    fn times_and_long_texts_are_readable() {
        assert_eq!(time(1_760_090_400_123), "2025-10-10T10:00:00.123Z");
        assert_eq!((ends("abcdef", 4).as_str(), ends("abc", 4).as_str()), ("ab…f", "abc"));
        assert_eq!((short("abcdef", 4).as_str(), short("abc", 4).as_str()), ("abc…", "abc"));
    }
    #[test]
    fn ages_are_readable() {
        assert_eq!(age(65_000), "1 min");
        assert_eq!(age(3_600_000 * 2 + 60_000 * 5), "2 h 5 min");
        assert_eq!(age(86_400_000 * 3 + 3_600_000), "3 d 1 h");
    }
}
