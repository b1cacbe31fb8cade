//! A Jupyter notebook as the model reads it: cell by cell, with the index that an edit names.
//!
//! Must never know: how the file was read, cards.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::counted;

/// The most characters of one output that are shown.
const OUTPUT_LIMIT: usize = 2_000;

#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
    nbformat: u64,
}

#[derive(Deserialize)]
struct Cell {
    cell_type: String,
    source: Text,
    #[serde(default)]
    outputs: Vec<Output>,
}

/// Notebooks write a text as one string or as its lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Whole(String),
    Lines(Vec<String>),
}

impl Text {
    fn joined(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Lines(lines) => lines.concat(),
        }
    }
}

#[derive(Deserialize)]
struct Output {
    /// What a program wrote.
    text: Option<Text>,
    /// A value in one or several forms, by MIME type.
    data: Option<Map<String, Value>>,
    /// An error's name, and its words.
    ename: Option<String>,
    evalue: Option<String>,
}

/// The notebook's cells in text. None if the file is not a notebook that can be read so.
pub(super) fn cells(path: &str, json: &str) -> Option<String> {
    let notebook: Notebook = serde_json::from_str(json).ok()?;
    if notebook.nbformat < 4 {
        return None;
    }
    let count = i64::try_from(notebook.cells.len()).ok()?;
    let mut text = format!(
        "{path} is a notebook with {}. Its own lines come with offset and limit.\n",
        counted(count, "cell")
    );
    for (index, cell) in notebook.cells.iter().enumerate() {
        let _ = writeln!(text, "[cell {index}, {}]", cell.cell_type);
        push_lines(&mut text, &cell.source.joined());
        for output in &cell.outputs {
            push_output(&mut text, output);
        }
    }
    Some(text)
}

fn push_output(text: &mut String, output: &Output) {
    if let Some(written) = &output.text {
        text.push_str("[output]\n");
        push_lines(text, &bounded(&written.joined()));
    }
    if let Some(name) = &output.ename {
        let _ = writeln!(
            text,
            "[error] {name}: {}",
            output.evalue.as_deref().unwrap_or_default()
        );
    }
    for (kind, value) in output.data.iter().flatten() {
        let plain = (kind == "text/plain").then(|| serde_json::from_value::<Text>(value.clone()).ok());
        match plain.flatten() {
            Some(value) => {
                text.push_str("[output]\n");
                push_lines(text, &bounded(&value.joined()));
            }
            None => {
                let _ = writeln!(text, "[output of type {kind}, not shown]");
            }
        }
    }
}

fn push_lines(text: &mut String, lines: &str) {
    text.push_str(lines);
    if !lines.is_empty() && !lines.ends_with('\n') {
        text.push('\n');
    }
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(OUTPUT_LIMIT) {
        Some((at, _)) => format!("{}\n[The output goes on.]\n", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_with_index_kind_source_and_what_can_be_shown_of_their_outputs() {
        let long = "x".repeat(OUTPUT_LIMIT + 1);
        let json = serde_json::json!({
            "nbformat": 4,
            "cells": [
                {"cell_type": "markdown", "source": ["# A\n", "b"]},
                {"cell_type": "code", "source": "", "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
                    {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": ["<Figure>"]}},
                    {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["..."]},
                    {"output_type": "stream", "name": "stdout", "text": long},
                ]},
            ],
        });
        let expected = format!(
            "n.ipynb is a notebook with 2 cells. Its own lines come with offset and limit.\n[cell 0, markdown]\n# A\nb\n\
             [cell 1, code]\n[output]\none\ntwo\n[output of type image/png, not shown]\n[output]\n<Figure>\n[error] \
             ValueError: no\n[output]\n{}\n[The output goes on.]\n",
            "x".repeat(OUTPUT_LIMIT)
        );
        assert_eq!(cells("n.ipynb", &json.to_string()), Some(expected));
    }

    #[test]
    fn what_is_no_notebook_has_no_cells() {
        for json in [
            "",
            "{}",
            "[]",
            r#"{"cells":[],"nbformat":3}"#,
            r#"{"cells":[{}],"nbformat":4}"#,
        ] {
            assert_eq!(cells("n.ipynb", json), None, "{json}");
        }
    }
}
