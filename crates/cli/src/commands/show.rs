//! How things are shown, the same for every kind: as a list, in full, as JSON; and the flags that say which.

use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::screen::{Screen, plain};
use crate::table::Table;

/// How a list is shown.
#[derive(Clone, Debug, Args)]
pub struct ListFlags {
    /// As JSON.
    #[arg(long, conflicts_with_all = ["ids_only", "format"])]
    pub json: bool,
    /// Only ids.
    #[arg(short = 'q', long = "quiet")]
    pub ids_only: bool,
    /// Whole ids, nothing cut.
    #[arg(long)]
    pub no_trunc: bool,
    /// json for one object a line, or table; templates are not supported.
    #[arg(long, hide = true, value_name = "FORMAT", value_parser = format)]
    format: Option<Format>,
}

/// What docker calls a format, as far as it is no template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One JSON object a line.
    Json,
    /// The table that is shown anyway.
    Table,
}

fn format(text: &str) -> Result<Format, String> {
    match text {
        "json" => Ok(Format::Json),
        "table" => Ok(Format::Table),
        _ => Err("templates are not supported; use --json and pick from that".into()),
    }
}

fn inspect_format(text: &str) -> Result<Format, String> {
    format(text).and_then(|f| if f == Format::Json { Ok(f) } else { Err("use json".into()) })
}

impl ListFlags {
    /// Shows things as these flags say; `table` makes the table of them, unless something else is asked for.
    pub fn show<T: Serialize>(
        &self,
        screen: &mut Screen,
        things: &[T],
        id: impl Fn(&T) -> &str,
        table: impl FnOnce(&Screen) -> Table,
    ) -> Result<(), Failure> {
        if self.json {
            return screen.json(&things);
        }
        if self.ids_only {
            return things.iter().try_for_each(|thing| screen.line(id(thing)));
        }
        if self.format == Some(Format::Json) {
            return things.iter().try_for_each(|thing| screen.json_line(thing));
        }
        let table = table(screen);
        screen.table(&if self.no_trunc { table.whole() } else { table })
    }

    /// True when a table is what will be shown.
    pub fn is_table(&self) -> bool {
        !self.json && !self.ids_only && self.format != Some(Format::Json)
    }
}

/// How things are shown in full.
#[derive(Clone, Debug, Args)]
pub struct InspectFlags {
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// For people, which is how it is shown anyway.
    #[arg(long, hide = true, conflicts_with_all = ["json", "format"])]
    pretty: bool,
    /// json; templates are not supported.
    #[arg(long, hide = true, value_name = "FORMAT", value_parser = inspect_format)]
    format: Option<Format>,
}

impl InspectFlags {
    /// Shows things as these flags say; `one` shows one of them for people.
    pub fn show<T: Serialize>(
        &self,
        screen: &mut Screen,
        things: &[T],
        one: impl Fn(&mut Screen, &T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.json || self.format.is_some() {
            return screen.json(&things);
        }
        for (i, thing) in things.iter().enumerate() {
            if i > 0 {
                screen.line("")?;
            }
            one(screen, thing)?;
        }
        Ok(())
    }
}

/// Names with values, one a line, aligned; what is empty is left out.
#[derive(Default)]
pub struct Fields(Vec<(&'static str, String)>);

impl Fields {
    /// Adds a field unless its value is empty.
    pub fn add(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name, value));
        }
    }

    /// Adds a field when there is a value.
    pub fn add_some(&mut self, name: &'static str, value: Option<&String>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// Adds values under one name, one a line.
    pub fn add_all(&mut self, name: &'static str, values: impl Iterator<Item = String>) {
        for (i, value) in values.enumerate() {
            self.0.push((if i == 0 { name } else { "" }, value));
        }
    }

    /// Writes them.
    pub fn show(&self, screen: &mut Screen) -> Result<(), Failure> {
        for (name, value) in &self.0 {
            let name = if name.is_empty() { String::new() } else { format!("{name}:") };
            screen.line(format!("{name:<14}{}", plain(value)))?;
        }
        Ok(())
    }
}

/// A word with a capital letter, as states are shown.
pub fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::screen::tests::paper;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        list: ListFlags,
    }

    #[derive(Debug, Parser)]
    struct Full {
        #[command(flatten)]
        inspect: InspectFlags,
    }

    #[test]
    fn a_list_in_each_form() {
        for (flags, text) in [
            (&[][..], "ID\na\nb\n"),
            (&["--format", "table"], "ID\na\nb\n"),
            (&["-q"], "a\nb\n"),
            (&["--quiet", "--format=json"], "a\nb\n"),
            (&["--format", "json"], "\"a\"\n\"b\"\n"),
            (&["--json"], "[\n  \"a\",\n  \"b\"\n]\n"),
        ] {
            let line = Line::parse_from(["ls"].iter().chain(flags));
            let (mut screen, out, _) = paper();
            let table = |_: &Screen| {
                let mut table = Table::new(&["ID"]);
                table.row(vec!["a".into()]);
                table.row(vec!["b".into()]);
                table
            };
            line.list.show(&mut screen, &["a", "b"], |t| t, table).unwrap();
            assert_eq!(out.text(), text, "{flags:?}");
        }
        for flags in [&["--format", "{{.ID}}"][..], &["--json", "-q"], &["--json", "--format", "json"]] {
            assert!(Line::try_parse_from(["ls"].iter().chain(flags)).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn things_in_full() {
        for (flags, text) in [
            (&[][..], "A:            1\n\nA:            2\n"),
            (&["--pretty"], "A:            1\n\nA:            2\n"),
            (&["--format", "json"], "[\n  1,\n  2\n]\n"),
            (&["--json"], "[\n  1,\n  2\n]\n"),
        ] {
            let line = Full::parse_from(["inspect"].iter().chain(flags));
            let (mut screen, out, _) = paper();
            let one = |screen: &mut Screen, n: &u8| {
                let mut fields = Fields::default();
                fields.add("A", n.to_string());
                fields.show(screen)
            };
            line.inspect.show(&mut screen, &[1, 2], one).unwrap();
            assert_eq!(out.text(), text, "{flags:?}");
        }
    }
}
