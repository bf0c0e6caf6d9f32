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

/// What may become of a column when a terminal is too narrow for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Give {
    /// Nothing: ids, names and numbers are of no use in part.
    Nothing,
    /// It is cut before anything else.
    Text,
    /// It is left out; others say nearly the same.
    Whole,
    /// It is cut when nothing else is left to be cut.
    Last,
}

/// A column.
#[derive(Clone, Copy, Debug)]
struct Column {
    title: &'static str,
    gives: Give,
}

/// Rows under titles.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    whole: bool,
}

/// Blanks between columns.
const GAP: usize = 2;
/// A text that is cut keeps so much as long as another column can be left out instead.
const COMFORT: usize = 24;
/// A column that may be cut keeps at least so much.
const LEAST: usize = 10;

impl Table {
    /// A table with these titles. A mark in front says what a column gives when a terminal is too narrow: `~` is cut first, `?`
    /// is left out, `^` is cut last; without a mark it stays whole.
    pub fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| {
            let marks = [('~', Give::Text), ('?', Give::Whole), ('^', Give::Last)];
            let marked = marks.iter().find_map(|(mark, gives)| Some((title.strip_prefix(*mark)?, *gives)));
            let (title, gives) = marked.unwrap_or((title, Give::Nothing));
            Column { title, gives }
        };
        Self { columns: titles.iter().map(column).collect(), rows: Vec::new(), whole: false }
    }

    /// The same table, of which nothing is cut or left out however narrow the terminal is.
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Adds a row; it has a cell for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The lines of the table. With a width it is made to fit, if it can be.
    pub fn render(&self, width: Option<usize>, colour: bool) -> String {
        let widths = self.widths(width);
        let titles: Vec<Cell> = self.columns.iter().map(|c| Cell::from(c.title)).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let shown: Vec<(&Cell, usize)> =
                row.iter().zip(&widths).filter_map(|(cell, width)| Some((cell, (*width)?))).collect();
            push_row(&mut text, &shown, colour);
        }
        text
    }

    /// How wide each column is; `None` for one that is left out.
    fn widths(&self, screen: Option<usize>) -> Vec<Option<usize>> {
        let chars = |text: &str| text.chars().count();
        let widest = |i: usize| {
            let cells = self.rows.iter().map(|row| chars(&row[i].text)).max().unwrap_or(0);
            cells.max(chars(self.columns[i].title))
        };
        let mut widths: Vec<Option<usize>> = (0..self.columns.len()).map(|i| Some(widest(i))).collect();
        let Some(screen) = screen.filter(|screen| !self.whole && *screen < total(&widths)) else {
            return widths;
        };
        // First what says nothing at all goes.
        for (i, width) in widths.iter_mut().enumerate() {
            if !self.rows.is_empty() && self.rows.iter().all(|row| row[i].text.trim().is_empty()) {
                *width = None;
            }
        }
        // Then, step by step, what says the least; each step begins with whole columns, so that nothing is cut needlessly.
        let to_leave_out =
            (0..self.columns.len()).rev().filter(|i| self.columns[*i].gives == Give::Whole).map(Some);
        for leave_out in std::iter::once(None).chain(to_leave_out) {
            if let Some(i) = leave_out {
                widths[i] = None;
            }
            let cut = self.cut(widths.clone(), Give::Text, COMFORT, screen);
            if total(&cut) <= screen {
                return cut;
            }
        }
        // At last: what a text says is worth more than the last words of the others.
        let cut = self.cut(widths, Give::Text, COMFORT, screen);
        let cut = self.cut(cut, Give::Last, LEAST, screen);
        self.cut(cut, Give::Text, LEAST, screen)
    }

    /// Cuts columns of a kind until the table fits, the widest first, of equals the last. A title stays whole.
    fn cut(
        &self,
        mut widths: Vec<Option<usize>>,
        kind: Give,
        least: usize,
        screen: usize,
    ) -> Vec<Option<usize>> {
        loop {
            let too_much = total(&widths).saturating_sub(screen);
            // Each with how much of it can go.
            let spare = widths.iter().enumerate().filter_map(|(i, width)| {
                let column = self.columns[i];
                let spare = (*width)?.saturating_sub(least.max(column.title.chars().count()));
                (column.gives == kind && spare > 0).then_some((i, (*width)?, spare))
            });
            let mut by_width: Vec<(usize, usize, usize)> = spare.collect();
            by_width.sort_by_key(|(i, width, _)| (*width, *i));
            let Some((i, width, spare)) = by_width.pop().filter(|_| too_much > 0) else { return widths };
            // Down to the next one, then both in turn.
            let next = by_width.last().map_or(0, |(_, width, _)| *width);
            widths[i] = Some(width - too_much.min(width.saturating_sub(next).max(1)).min(spare));
        }
    }
}

/// How wide a table of these columns is.
fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * shown.saturating_sub(1)
}

fn push_row(text: &mut String, row: &[(&Cell, usize)], colour: bool) {
    let last = row.iter().rposition(|(cell, _)| !cell.text.is_empty()).unwrap_or(0);
    for (i, (cell, width)) in row.iter().enumerate().take(last + 1) {
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
        // Who wants everything gets it.
        assert_eq!(table().whole().render(Some(5), false), table().render(None, false));
    }

    #[test]
    fn what_says_nothing_goes_first_then_what_others_say() {
        let mut table = Table::new(&["ID", "EMPTY", "?WANTED", "~TEXT", "?EXIT", "^STATE"]);
        let text = "a text that is quite long, longer than is comfortable";
        table.row(
            ["0123456789ab", "", "Running", text, "137", "Running about an hour ago"].map(Cell::from).into(),
        );
        let line = |width| table.render(Some(width), false).lines().nth(1).unwrap().to_owned();
        for (width, shown) in [
            (
                112,
                "0123456789ab  Running  a text that is quite long, longer than is comfortable  137   Running about an hour ago",
            ),
            (
                90,
                "0123456789ab  Running  a text that is quite long, longer…  137   Running about an hour ago",
            ),
            (78, "0123456789ab  Running  a text that is quite long, …  Running about an hour ago"),
            (70, "0123456789ab  a text that is quite long, l…  Running about an hour ago"),
            (55, "0123456789ab  a text that is quite lo…  Running about …"),
            (20, "0123456789ab  a text th…  Running a…"),
        ] {
            assert_eq!(line(width), shown, "{width}");
            assert!(shown.chars().count() <= width || width == 20, "{width}");
        }
        // Nothing is missing as long as it fits.
        assert!(table.render(Some(200), false).starts_with("ID            EMPTY  WANTED"));
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
