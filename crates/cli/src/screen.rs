//! Where output goes, and how it may look there: width and colours exist only on a terminal.

use std::io::{self, IsTerminal, Write};

use jiff::Timestamp;
use serde::Serialize;

use crate::failure::Failure;
use crate::table::{Table, Tone};

/// Standard output and standard error of a command.
pub struct Screen {
    /// What was asked for.
    pub out: Box<dyn Write>,
    /// Progress, warnings and refusals.
    pub err: Box<dyn Write>,
    /// The width of the terminal that `out` is, or what COLUMNS says of it; `None` when it is none, and nothing is cut.
    pub width: Option<usize>,
    /// True when `out` may have colours.
    pub colour: bool,
    /// Width and height of the terminal that `err` is.
    pub err_size: Option<(usize, usize)>,
    clock: fn() -> Timestamp,
}

impl Screen {
    /// The process's own streams.
    pub fn of_process() -> Self {
        let size = |stream: &dyn Size| stream.size();
        let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = size(&io::stdout()).map(|(columns, _)| said.filter(|n| *n > 0).unwrap_or(columns));
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        Self {
            out: Box::new(io::BufWriter::new(io::stdout())),
            err: Box::new(io::stderr()),
            width,
            colour: width.is_some() && !no_colour && !dumb,
            err_size: size(&io::stderr()).filter(|_| !dumb),
            clock: Timestamp::now,
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Writes a line to standard output.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{}", text.as_ref())?)
    }

    /// Writes a table to standard output.
    pub fn table(&mut self, table: &Table) -> Result<(), Failure> {
        Ok(self.out.write_all(table.render(self.width, self.colour).as_bytes())?)
    }

    /// Writes a value as indented JSON to standard output.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| Failure::Refused(format!("cannot write JSON: {e}")))?;
        self.line(text)
    }

    /// Writes a value as one line of JSON and lets it go at once: for streams.
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text =
            serde_json::to_string(value).map_err(|e| Failure::Refused(format!("cannot write JSON: {e}")))?;
        self.line(text)?;
        self.flush()
    }

    /// Writes a sentence of the program itself to standard error.
    pub fn note(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        Ok(writeln!(self.err, "quelea: {}", text.as_ref())?)
    }

    /// A text in the colour of its tone, where there are colours.
    pub fn toned(&self, text: &str, tone: Tone) -> String {
        tone.paint(text, self.colour)
    }

    /// Lets everything go that was written to standard output.
    pub fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

trait Size {
    fn size(&self) -> Option<(usize, usize)>;
}

impl<S: IsTerminal + std::os::fd::AsFd> Size for S {
    fn size(&self) -> Option<(usize, usize)> {
        if !self.is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(self).ok()?;
        // A terminal that does not know its size says 0: nothing is cut then.
        let or_any = |n: u16| if n == 0 { usize::MAX } else { usize::from(n) };
        Some((or_any(size.ws_col), or_any(size.ws_row)))
    }
}

/// Makes a text safe for one line of a terminal: control characters become blanks.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Cuts a text to so many characters, with an ellipsis where something is missing.
pub fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Breaks a text between words into lines of at most so many characters, all but the first behind so many blanks. A word
/// that is longer than a line stays whole.
pub fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut filled = 0usize;
    for word in text.split(' ') {
        let length = word.chars().count();
        if let Some(last) = lines.last_mut()
            && (filled == 0 || filled.saturating_add(1 + length) <= width)
        {
            if filled > 0 {
                last.push(' ');
            }
            last.push_str(word);
            filled += usize::from(filled > 0) + length;
            continue;
        }
        lines.push(" ".repeat(indent) + word);
        filled = indent + length;
    }
    lines
}

/// An id as docker shows it: the first twelve characters, unless all are wanted.
pub fn short(id: &str, whole: bool) -> &str {
    if whole { id } else { id.get(..12).unwrap_or(id) }
}

#[cfg(test)]
pub mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// What a command wrote.
    #[derive(Clone, Default)]
    pub struct Paper(Rc<RefCell<Vec<u8>>>);

    impl Paper {
        pub fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A screen that is no terminal, at a fixed moment, with what it will hold.
    pub fn paper() -> (Screen, Paper, Paper) {
        let (out, err) = (Paper::default(), Paper::default());
        let screen = Screen {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            width: None,
            colour: false,
            err_size: None,
            clock: || "2026-01-31T13:00:00Z".parse().unwrap(),
        };
        (screen, out, err)
    }

    #[test]
    fn texts_are_cut_and_made_safe() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdef", 5), "abcd…");
        assert_eq!(clip("äöüß", 3), "äö…");
        assert_eq!(wrap("one two three", 7, 2), ["one two", "  three"]);
        assert_eq!(wrap("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrap("unbreakable x", 4, 1), ["unbreakable", " x"]);
        assert_eq!(wrap("one two", usize::MAX, 2), ["one two"]);
        assert_eq!(wrap("", 4, 2), [""]);
        assert_eq!(plain("a\u{1b}[31mb\nc"), "a [31mb c");
        assert_eq!(short("abcdefghijklmnop", false), "abcdefghijkl");
        assert_eq!(short("abc", false), "abc");
    }
}
