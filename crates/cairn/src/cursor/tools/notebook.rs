//! Edits of a Jupyter notebook's cells in the notebook's own JSON text.
//!
//! The text is never parsed and written anew: an edit finds the bytes of one cell's source, or the place between two
//! cells, and says what takes their place, in the form that the file has. Must never know: how a file is read or
//! written, cards, the words for the model.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::arguments::CellKind;
use super::edit::{EditFault, find_one};

/// A change of a text: this range becomes this text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Splice {
    pub range: Range<usize>,
    pub text: String,
}

/// Why a cell cannot be edited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CellFault {
    /// The file is not a notebook; what is wrong with it.
    NotANotebook(String),
    /// There are only this many cells.
    NoSuchCell(usize),
    /// A passage is needed, since the cell is not empty.
    NotEmpty,
}

#[derive(Deserialize)]
struct Notebook<'a> {
    #[serde(borrow)]
    cells: &'a RawValue,
    nbformat: u64,
    #[serde(default)]
    nbformat_minor: u64,
}

#[derive(Deserialize)]
struct Cell<'a> {
    #[serde(borrow)]
    source: &'a RawValue,
    #[serde(default)]
    id: Option<String>,
}

/// Replaces a passage in the source of a cell; an empty passage fills an empty cell.
pub(super) fn change_cell(text: &str, index: usize, old: &str, new: &str) -> Result<Splice, EditFault> {
    let (_, cells) = open(text)?;
    let cell = cells
        .get(index)
        .ok_or(EditFault::Cell(CellFault::NoSuchCell(cells.len())))?;
    let source = read::<Cell<'_>>(cell.get())?.source;
    let at = offset(text, source.get());
    let lines = match source.get().starts_with('[') {
        true => Some(read::<Vec<&RawValue>>(source.get())?),
        false => None,
    };
    let held = match &lines {
        Some(lines) => lines
            .iter()
            .map(|line| read::<String>(line.get()))
            .collect::<Result<Vec<_>, _>>()?,
        None => vec![read::<String>(source.get())?],
    };
    let whole = held.concat();
    let after = match (old, whole.as_str()) {
        (old, _) if old == new => return Err(EditFault::NoChange),
        ("", "") => new.to_owned(),
        ("", _) => return Err(EditFault::Cell(CellFault::NotEmpty)),
        _ => {
            let found = find_one(&whole, old)?;
            [&whole[..found.start], new, &whole[found.end..]].concat()
        }
    };
    let everything = at..at + source.get().len();
    Ok(match &lines {
        None => Splice {
            range: everything,
            text: quoted(&after),
        },
        Some(elements) if elements.is_empty() || after.is_empty() => {
            let gap = line_gap(text, cells.as_slice(), at);
            Splice {
                range: everything,
                text: list(after.split_inclusive('\n').map(quoted), &gap),
            }
        }
        Some(elements) => relined(text, everything, elements, &held, &after),
    })
}

/// Inserts a cell, so that it stands at this index.
pub(super) fn insert_cell(
    text: &str,
    index: usize,
    kind: CellKind,
    source: &str,
) -> Result<Splice, EditFault> {
    let (notebook, cells) = open(text)?;
    if index > cells.len() {
        return Err(EditFault::Cell(CellFault::NoSuchCell(cells.len())));
    }
    let mut taken = Vec::with_capacity(cells.len());
    for cell in &cells {
        taken.extend(read::<Cell<'_>>(cell.get())?.id);
    }
    let id = ((notebook.nbformat, notebook.nbformat_minor) >= (4, 5)).then(|| free_id(index, source, &taken));
    let list_at = offset(text, notebook.cells.get());
    let form = Form::of(text, list_at, &cells);
    let cell = form.cell(kind, id.as_deref(), source);
    let start = |cell: &RawValue| offset(text, cell.get());
    let end = |cell: &RawValue| start(cell) + cell.get().len();
    Ok(
        match (
            index.checked_sub(1).and_then(|before| cells.get(before)),
            cells.first(),
        ) {
            (Some(before), _) => Splice {
                range: end(before)..end(before),
                text: format!(",{}{cell}", form.gap),
            },
            (None, Some(first)) => Splice {
                range: start(first)..start(first),
                text: format!("{cell},{}", form.gap),
            },
            (None, None) => Splice {
                range: list_at..list_at + notebook.cells.get().len(),
                text: format!("[{}{cell}{}]", form.gap, form.closing),
            },
        },
    )
}

fn open(text: &str) -> Result<(Notebook<'_>, Vec<&RawValue>), EditFault> {
    let notebook: Notebook<'_> = read(text)?;
    if notebook.nbformat < 4 {
        return Err(EditFault::Cell(CellFault::NotANotebook(format!(
            "it has nbformat {}, which keeps its cells elsewhere; convert it to nbformat 4",
            notebook.nbformat
        ))));
    }
    let cells = read(notebook.cells.get())?;
    Ok((notebook, cells))
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, EditFault> {
    serde_json::from_str(json).map_err(|error| {
        EditFault::Cell(CellFault::NotANotebook(format!(
            "its text is not the JSON of one ({error})"
        )))
    })
}

/// Where a part of a text stands in it.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A list in the file's form: `gap` stands before each element, and without the last level before the end.
fn list(elements: impl Iterator<Item = String>, gap: &Gap) -> String {
    let elements: Vec<String> = elements.collect();
    match elements.is_empty() {
        true => "[]".to_owned(),
        false => format!(
            "[{}{}{}]",
            gap.inner,
            elements.join(&format!(",{}", gap.between)),
            gap.closing
        ),
    }
}

/// Replaces the elements of a list of lines that differ; the others keep their bytes.
fn relined(text: &str, whole: Range<usize>, elements: &[&RawValue], held: &[String], after: &str) -> Splice {
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let same = |(old, new): &(&String, &&str)| old.as_str() == **new;
    let head = held.iter().zip(&new).take_while(same).count();
    let most = held.len().min(new.len()) - head;
    let tail = held
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(most)
        .take_while(same)
        .count();
    let start = |place: usize| offset(text, elements[place].get());
    let end = |place: usize| start(place) + elements[place].get().len();
    let (old_end, new_end) = (held.len() - tail, new.len() - tail);
    let between = match elements {
        [_, _, ..] => text[end(0)..start(1)].to_owned(),
        _ => format!(",{}", &text[whole.start + 1..start(0)]),
    };
    let added: Vec<String> = new[head..new_end].iter().map(|line| quoted(line)).collect();
    let added_text = added.join(&between);
    match (head < old_end, added.is_empty()) {
        (true, false) => Splice {
            range: start(head)..end(old_end - 1),
            text: added_text,
        },
        // Lines only go away; the separator goes with them.
        (true, true) if tail > 0 => Splice {
            range: start(head)..start(old_end),
            text: String::new(),
        },
        (true, true) => Splice {
            range: end(head.saturating_sub(1))..end(old_end - 1),
            text: String::new(),
        },
        // Lines only come.
        (false, _) if tail > 0 => Splice {
            range: start(head)..start(head),
            text: added_text + &between,
        },
        (false, _) => Splice {
            range: end(head - 1)..end(head - 1),
            text: between + &added_text,
        },
    }
}

/// The white space of a list.
struct Gap {
    /// After the opening bracket.
    inner: String,
    /// After a comma.
    between: String,
    /// Before the closing bracket.
    closing: String,
}

/// The white space for the lines of a source that has none yet: one level deeper than the line it stands on.
fn line_gap(text: &str, cells: &[&RawValue], at: usize) -> Gap {
    let compact = !cells.iter().any(|cell| cell.get().contains('\n'));
    if compact {
        return Gap {
            inner: String::new(),
            between: after_comma(text).to_owned(),
            closing: String::new(),
        };
    }
    let indent = indent_at(text, at);
    let deeper = format!("\n{indent}{}", unit(text));
    Gap {
        inner: deeper.clone(),
        between: deeper,
        closing: format!("\n{indent}"),
    }
}

/// The indentation of the line that holds this place.
fn indent_at(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |line_end| line_end + 1);
    let line = &text[start..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// One level of indentation: what stands before the file's first member, or one space as Jupyter writes it.
fn unit(text: &str) -> &str {
    let first = text.split_once('\n').map_or("", |(_, rest)| rest);
    let indent = &first[..first.len() - first.trim_start_matches([' ', '\t']).len()];
    if indent.is_empty() { " " } else { indent }
}

/// What a file without line breaks writes after a comma.
fn after_comma(text: &str) -> &'static str {
    if text.contains(", \"") { " " } else { "" }
}

/// How the file writes its cells.
struct Form {
    /// Before a cell.
    gap: String,
    /// Before the end of the list of cells.
    closing: String,
    /// Before a member of a cell; none where a cell stands on one line.
    member: Option<String>,
    unit: String,
    comma: &'static str,
    colon: &'static str,
}

impl Form {
    fn of(text: &str, list_at: usize, cells: &[&RawValue]) -> Self {
        let unit = unit(text).to_owned();
        let colon = if text.contains("\": ") { ": " } else { ":" };
        let comma = after_comma(text);
        let gap = match cells {
            // Between the first two cells, or before the only one, stands what separates cells here.
            [one, two, ..] => {
                let end = offset(text, one.get()) + one.get().len();
                text[end..offset(text, two.get())].replacen(',', "", 1)
            }
            [one] => text[list_at + 1..offset(text, one.get())].to_owned(),
            [] if text.trim_end().contains('\n') => format!("\n{}{unit}", indent_at(text, list_at)),
            [] => String::new(),
        };
        let closing = match gap.contains('\n') {
            true => format!("\n{}", indent_at(text, list_at)),
            false => String::new(),
        };
        let spread = cells
            .first()
            .map_or(gap.contains('\n'), |cell| cell.get().contains('\n'));
        let member = spread.then(|| match gap.rsplit_once('\n') {
            Some((_, indent)) => format!("\n{indent}{unit}"),
            None => format!("\n{unit}{unit}"),
        });
        Self {
            gap,
            closing,
            member,
            unit,
            comma,
            colon,
        }
    }

    /// A cell with its members in the order in which Jupyter writes them.
    fn cell(&self, kind: CellKind, id: Option<&str>, source: &str) -> String {
        let gap = match &self.member {
            Some(member) => Gap {
                inner: format!("{member}{}", self.unit),
                between: format!("{member}{}", self.unit),
                closing: member.clone(),
            },
            None => Gap {
                inner: String::new(),
                between: self.comma.to_owned(),
                closing: String::new(),
            },
        };
        let source = list(source.split_inclusive('\n').map(quoted), &gap);
        let is_code = kind == CellKind::Code;
        let members = [
            Some(("cell_type", quoted(kind.word()))),
            is_code.then(|| ("execution_count", "null".to_owned())),
            id.map(|id| ("id", quoted(id))),
            Some(("metadata", "{}".to_owned())),
            is_code.then(|| ("outputs", "[]".to_owned())),
            Some(("source", source)),
        ];
        let members: Vec<String> = members
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("\"{name}\"{}{value}", self.colon))
            .collect();
        match &self.member {
            Some(member) => {
                let closing = member.strip_suffix(self.unit.as_str()).unwrap_or(member);
                format!("{{{member}{}{closing}}}", members.join(&format!(",{member}")))
            }
            None => format!("{{{}}}", members.join(&format!(",{}", self.comma))),
        }
    }
}

/// An id that no cell has: from place and source, so that the same edit of the same file gives the same bytes.
fn free_id(index: usize, source: &str, taken: &[String]) -> String {
    let mut salt = 0_u32;
    loop {
        let digest = Sha256::new()
            .chain_update(salt.to_be_bytes())
            .chain_update(index.to_be_bytes())
            .chain_update(source)
            .finalize();
        let id = hex::encode(&digest[..4]);
        if !taken.contains(&id) {
            return id;
        }
        salt += 1;
    }
}

#[cfg(test)]
#[path = "notebook_tests.rs"]
mod tests;
