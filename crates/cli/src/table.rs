//! Tables for people: aligned columns without borders.

use crate::screen::{clip, plain};

/// What a text says about the state of things; a colour where there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// On its way.
    Waiting,
    /// Not as it should be.
    Bad,
    /// Of the past.
    Old,
}

impl Tone {
    /// The text in this tone.
    pub fn paint(self, text: &str, colour: bool) -> String {
        let code = match self {
            Self::Good => "32",
            Self::Waiting => "33",
            Self::Bad => "31",
            Self::Old => "2",
            Self::Plain => return text.to_owned(),
        };
        if colour && !text.trim().is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A text in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A text in a tone.
    pub fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: plain(text.as_ref()), tone }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A column: its title, and whether it may be cut when a terminal is too narrow.
#[derive(Clone, Copy, Debug)]
struct Column {
    title: &'static str,
    may_shrink: bool,
}

/// Rows under titles.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// Blanks between columns.
const GAP: usize = 2;
/// A column that may be cut keeps at least so much.
const LEAST: usize = 10;

impl Table {
    /// A table with these titles; a `~` in front marks a column that may be cut.
    pub fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| match title.strip_prefix('~') {
            Some(title) => Column { title, may_shrink: true },
            None => Column { title, may_shrink: false },
        };
        Self { columns: titles.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row; it has a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The lines of the table. With a width, columns that may be cut are, the widest first.
    pub fn render(&self, width: Option<usize>, colour: bool) -> String {
        let widths = self.widths(width);
        let titles: Vec<Cell> = self.columns.iter().map(|c| Cell::from(c.title)).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&self.rows) {
            push_row(&mut text, row, &widths, colour);
        }
        text
    }

    fn widths(&self, screen: Option<usize>) -> Vec<usize> {
        let chars = |text: &str| text.chars().count();
        let widest = |i: usize| {
            let cells = self.rows.iter().map(|row| chars(&row[i].text)).max().unwrap_or(0);
            cells.max(chars(self.columns[i].title))
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        let Some(screen) = screen else { return widths };
        let gaps = GAP * self.columns.len().saturating_sub(1);
        loop {
            let total = widths.iter().sum::<usize>() + gaps;
            let too_much = total.saturating_sub(screen);
            // The widest column that may still be cut; the last one among equals.
            let candidates =
                widths.iter().enumerate().filter(|(i, w)| self.columns[*i].may_shrink && **w > LEAST);
            let Some((i, widest)) = candidates.max_by_key(|(_, w)| **w).map(|(i, w)| (i, *w)) else {
                return widths;
            };
            if too_much == 0 {
                return widths;
            }
            let others = widths.iter().enumerate().filter(|(j, _)| *j != i && self.columns[*j].may_shrink);
            let next = others.map(|(_, w)| *w).max().unwrap_or(0).max(LEAST);
            let step = too_much.min(widest.saturating_sub(next).max(1));
            widths[i] = (widest - step).max(LEAST);
        }
    }
}

fn push_row(text: &mut String, row: &[Cell], widths: &[usize], colour: bool) {
    let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
    for (i, (cell, width)) in row.iter().zip(widths).enumerate().take(last + 1) {
        let shown = clip(&cell.text, *width);
        text.push_str(&cell.tone.paint(&shown, colour));
        if i < last {
            let pad = width - shown.chars().count() + GAP;
            text.extend(std::iter::repeat_n(' ', pad));
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "NAME", "~ERROR", "PORTS"]);
        table.row(vec!["abc".into(), "web.1".into(), "".into(), "8080/tcp".into()]);
        table.row(vec![
            "abcdef".into(),
            Cell::new("ä", Tone::Bad),
            "no suitable node (insufficient memory on 1 node)".into(),
            "".into(),
        ]);
        table
    }

    #[test]
    fn columns_are_aligned_and_end_without_blanks() {
        assert_eq!(
            table().render(None, false),
            "\
ID      NAME   ERROR                                             PORTS
abc     web.1                                                    8080/tcp
abcdef  ä      no suitable node (insufficient memory on 1 node)
"
        );
    }

    #[test]
    fn only_columns_that_may_be_cut_are() {
        assert_eq!(
            table().render(Some(45), false),
            "\
ID      NAME   ERROR                 PORTS
abc     web.1                        8080/tcp
abcdef  ä      no suitable node (i…
"
        );
        // Narrower than everything that must stay: the rest stays readable and the terminal wraps.
        assert!(table().render(Some(5), false).contains("no suitab…\n"));
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let coloured = table().render(None, true);
        assert!(coloured.contains("abcdef  \u{1b}[31mä\u{1b}[0m      no"), "{coloured}");
    }

    #[test]
    fn an_empty_table_has_its_titles() {
        assert_eq!(Table::new(&["ID", "~NAME"]).render(Some(80), true), "ID  NAME\n");
    }
}
