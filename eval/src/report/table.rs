//! A table, as both the page and the Markdown show it, and as scripts read it.

use std::fmt::Write;

use serde::Serialize;
use spechop_theory::Interval;

const NOT_WHOLE: &str = "NOT WHOLE";

/// A table of the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// A short name that stays the same, e.g. `speculation`.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub about: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// Its rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell: what is shown, and the number behind it where there is one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// What is shown.
    pub text: String,
    /// The number, unrounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its lower 95 % confidence bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Its upper 95 % confidence bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// A column of a table in the making: its head, and its cell in each row.
pub(crate) struct Column<'c, R> {
    title: String,
    cell: Box<dyn Fn(R) -> Cell + 'c>,
}

impl<'c, R: Copy> Column<'c, R> {
    pub(crate) fn new(title: impl Into<String>, cell: impl Fn(R) -> Cell + 'c) -> Self {
        Self {
            title: title.into(),
            cell: Box::new(cell),
        }
    }

    /// The heads and the rows of a table.
    pub(crate) fn fill(
        columns: Vec<Self>,
        rows: impl IntoIterator<Item = R>,
    ) -> (Vec<String>, Vec<Vec<Cell>>) {
        let row = |row| columns.iter().map(|column| (column.cell)(row)).collect();
        let rows = rows.into_iter().map(row).collect();
        let heads = columns.into_iter().map(|column| column.title).collect();
        (heads, rows)
    }
}

impl Cell {
    /// There is nothing to show.
    pub(crate) fn none() -> Self {
        Self::text("–")
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    pub(crate) fn number(value: impl Into<Option<f64>>, digits: usize) -> Self {
        let Some(value) = value.into().filter(|value| value.is_finite()) else {
            return Self::none();
        };
        Self {
            text: fixed(value, digits),
            value: Some(value),
            ..Self::default()
        }
    }

    pub(crate) fn count(count: usize) -> Self {
        Self {
            value: Some(count as f64),
            ..Self::text(count.to_string())
        }
    }

    /// A number with its bounds.
    pub(crate) fn interval(interval: impl Into<Option<Interval>>, digits: usize) -> Self {
        let Some(Interval { value, low, high }) = interval.into() else {
            return Self::none();
        };
        let bounds = [value, low, high].map(|x| fixed(x, digits));
        let text = format!("{} [{}, {}]", bounds[0], bounds[1], bounds[2]);
        Self {
            text,
            value: Some(value),
            low: Some(low),
            high: Some(high),
        }
    }

    /// How many of how many; what is not whole says so.
    pub(crate) fn share_of(has: usize, expected: usize) -> Self {
        let text = match has < expected {
            true => format!("{has} of {expected}, {NOT_WHOLE}"),
            false => format!("{has} of {expected}"),
        };
        Self {
            value: Some(has as f64),
            ..Self::text(text)
        }
    }

    /// The same, and over how many of how many questions it is, where that is not all of them.
    pub(crate) fn over(self, has: usize, expected: usize) -> Self {
        match has < expected && self.value.is_some() {
            true => Self {
                text: format!("{}, {has} of {expected}, {NOT_WHOLE}", self.text),
                ..self
            },
            false => self,
        }
    }

    /// How likely something is by chance.
    pub(crate) fn p(p: f64) -> Self {
        Self {
            value: Some(p),
            ..Self::text(chance(p, ""))
        }
    }

    /// A difference, and how likely so large a one is by chance.
    pub(crate) fn difference(value: f64, p: f64, digits: usize) -> Self {
        let sign = if value > 0.0 { "+" } else { "" };
        let p = chance(p, "p = ");
        let text = format!("{sign}{} ({p})", fixed(value, digits));
        Self {
            value: Some(value),
            ..Self::text(text)
        }
    }

    /// A number, and how sure it is; nothing where it does not say.
    pub(crate) fn parts(&self) -> (&str, &str) {
        let split = self.text.split_once(" [").or(self.text.split_once(" ("));
        match split.filter(|_| self.value.is_some()) {
            None => (&self.text, ""),
            Some((number, _)) => (number, self.text[number.len()..].trim_start()),
        }
    }

    /// Its class in the page's style sheet.
    pub(crate) fn class(&self) -> &'static str {
        match self.value {
            Some(_) if self.text.ends_with(NOT_WHOLE) => "alarmed",
            Some(_) => "n",
            // A variant's name may break anywhere; a source's stands in one piece.
            None if self.text.chars().count() > 12 => "long",
            None => "n",
        }
    }
}

impl Table {
    /// The table in Markdown, under a heading.
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("### {}\n\n{}\n\n", escape(&self.title), escape(&self.about));
        let row = |out: &mut String, cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.collect();
            // Writing to a string cannot fail.
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        };
        row(
            &mut out,
            &mut self.columns.iter().map(|column| escape(column)),
        );
        row(&mut out, &mut self.columns.iter().map(|_| "---".to_owned()));
        for cells in &self.rows {
            row(&mut out, &mut cells.iter().map(|cell| escape(&cell.text)));
        }
        out
    }
}

/// Text that Markdown takes for what it is.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '\\' | '`' | '*' | '_' | '~' | '#' => out.extend(['\\', c]),
            // Only so would brackets make a link.
            '(' | '[' if out.ends_with(']') => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn chance(p: f64, is: &str) -> String {
    match p < 0.001 {
        true => format!("{}< 0.001", is.trim_end_matches("= ")),
        false => format!("{is}{p:.3}"),
    }
}

/// With so many digits behind the point; what rounds to nothing has no sign.
pub(crate) fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

/// A row of the paper that stands in no section says itself which data set it is of.
pub(super) fn with_dataset(mut row: Vec<Cell>, dataset: &str) -> Vec<Cell> {
    if let Some(source) = row.first_mut() {
        source.text = format!("{}, {dataset}", source.text);
    }
    row
}
