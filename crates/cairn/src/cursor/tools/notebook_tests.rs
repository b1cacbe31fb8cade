//! Edits of cells: the new source, and every other byte as it was.

use super::*;

/// As Jupyter writes it, with an output, an escape and a number that a new serialisation would change.
const SPREAD: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "a1",
   "metadata": {},
   "source": [
    "# Title\n",
    "caf\u00e9"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "b2",
   "metadata": {"x": 1.0},
   "outputs": [],
   "source": []
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

const COMPACT: &str = r#"{"cells":[{"cell_type":"code","source":"a = 1\nb = 2","metadata":{},"outputs":[],"execution_count":null}],"metadata":{},"nbformat":4,"nbformat_minor":2}"#;

fn spliced(text: &str, splice: Splice) -> String {
    let mut out = text.to_owned();
    out.replace_range(splice.range, &splice.text);
    out
}

fn changed(text: &str, index: usize, old: &str, new: &str) -> Result<String, EditFault> {
    change_cell(text, index, old, new).map(|splice| spliced(text, splice))
}

fn inserted(text: &str, index: usize, kind: CellKind, source: &str) -> Result<String, EditFault> {
    insert_cell(text, index, kind, source).map(|splice| spliced(text, splice))
}

#[test]
fn only_the_lines_of_the_passage_change() {
    for (old, new, before, after) in [
        ("Title", "Head", r##""# Title\n","##, r##""# Head\n","##),
        // A line that stays keeps its escapes.
        ("# Title\n", "", "\n    \"# Title\\n\",", ""),
        (
            "# Title",
            "# Title\nmore",
            r##""# Title\n","##,
            "\"# Title\\n\",\n    \"more\\n\",",
        ),
        ("\ncafé", "", "\"# Title\\n\",\n    \"caf\\u00e9\"", "\"# Title\""),
        (
            "café",
            "café\nend\n",
            "\"caf\\u00e9\"",
            "\"café\\n\",\n    \"end\\n\"",
        ),
        (
            "# Title\ncafé",
            "",
            "[\n    \"# Title\\n\",\n    \"caf\\u00e9\"\n   ]",
            "[]",
        ),
    ] {
        let expected = SPREAD.replacen(before, after, 1);
        assert_ne!(expected, SPREAD, "{before}");
        assert_eq!(changed(SPREAD, 0, old, new), Ok(expected), "{old} {new}");
    }
}

#[test]
fn lines_that_come_and_go_take_their_separators_with_them() {
    let three = r#"{"cells": [{"source": ["a\n", "b\n",  "c"]}], "nbformat": 4}"#;
    for (old, new, source) in [
        ("a\n", "", r#"["b\n",  "c"]"#),
        ("b\n", "", r#"["a\n", "c"]"#),
        ("b\nc", "b\n", r#"["a\n", "b\n"]"#),
        ("a\n", "z\na\n", r#"["z\n", "a\n", "b\n",  "c"]"#),
        ("c", "c\nd", r#"["a\n", "b\n",  "c\n", "d"]"#),
        ("b\n", "b\nx\ny\n", r#"["a\n", "b\n",  "x\n", "y\n", "c"]"#),
    ] {
        let expected = three.replacen(r#"["a\n", "b\n",  "c"]"#, source, 1);
        assert_eq!(changed(three, 0, old, new), Ok(expected), "{old} {new}");
    }
}

#[test]
fn an_empty_cell_is_filled_in_the_files_form() {
    let expected = SPREAD.replacen(
        r#""source": []"#,
        "\"source\": [\n    \"x = 1\\n\",\n    \"y\"\n   ]",
        1,
    );
    assert_eq!(changed(SPREAD, 1, "", "x = 1\ny"), Ok(expected));
}

#[test]
fn a_source_in_one_string_stays_one_string() {
    let expected = COMPACT.replacen(r"b = 2", r"b = 3\n", 1);
    assert_eq!(changed(COMPACT, 0, "2", "3\n"), Ok(expected));
}

#[test]
fn a_passage_must_fit_once() {
    assert_eq!(changed(COMPACT, 0, " = ", "="), Err(EditFault::Ambiguous(2)));
    assert_eq!(changed(COMPACT, 0, "c", "d"), Err(EditFault::NotFound));
    assert_eq!(changed(COMPACT, 0, "a", "a"), Err(EditFault::NoChange));
    assert_eq!(
        changed(COMPACT, 0, "", "a"),
        Err(EditFault::Cell(CellFault::NotEmpty))
    );
    assert_eq!(
        changed(COMPACT, 1, "a", "b"),
        Err(EditFault::Cell(CellFault::NoSuchCell(1)))
    );
    assert_eq!(
        inserted(COMPACT, 2, CellKind::Code, ""),
        Err(EditFault::Cell(CellFault::NoSuchCell(1)))
    );
    for text in [
        "",
        "[]",
        "{}",
        r#"{"cells":{},"nbformat":4}"#,
        r#"{"cells":[],"nbformat":3}"#,
    ] {
        assert!(
            matches!(
                changed(text, 0, "a", "b"),
                Err(EditFault::Cell(CellFault::NotANotebook(_)))
            ),
            "{text}"
        );
    }
}

#[test]
fn a_new_cell_is_written_as_its_neighbours_are() {
    let cell = |id: &str, source: &str| {
        format!(
            "  {{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"{id}\",\n   \"metadata\": \
             {{}},\n   \"outputs\": [],\n   \"source\": {source}\n  }}"
        )
    };
    let source = "[\n    \"x\\n\",\n    \"y\"\n   ]";
    let id = |index| free_id(index, "x\ny", &[]);
    let first = SPREAD.replacen(
        "\"cells\": [\n",
        &format!("\"cells\": [\n{},\n", cell(&id(0), source)),
        1,
    );
    assert_eq!(inserted(SPREAD, 0, CellKind::Code, "x\ny"), Ok(first));
    let last = SPREAD.replacen(
        "   \"source\": []\n  }\n",
        &format!("   \"source\": []\n  }},\n{}\n", cell(&id(2), source)),
        1,
    );
    assert_eq!(inserted(SPREAD, 2, CellKind::Code, "x\ny"), Ok(last));
    let middle = inserted(SPREAD, 1, CellKind::Raw, "").unwrap_or_default();
    let read: serde_json::Value = serde_json::from_str(&middle).unwrap_or_default();
    assert_eq!(
        read["cells"][1].to_string(),
        format!(
            r#"{{"cell_type":"raw","id":"{}","metadata":{{}},"source":[]}}"#,
            free_id(1, "", &[])
        )
    );
}

#[test]
fn a_new_cell_in_a_file_of_one_line_and_in_an_empty_notebook() {
    let after = COMPACT.replacen(
        r#"null}]"#,
        r#"null},{"cell_type":"markdown","metadata":{},"source":["x\n","y"]}]"#,
        1,
    );
    assert_eq!(inserted(COMPACT, 1, CellKind::Markdown, "x\ny"), Ok(after));
    let empty = "{\n \"cells\": [],\n \"nbformat\": 4\n}";
    let after = "{\n \"cells\": [\n  {\n   \"cell_type\": \"raw\",\n   \"metadata\": {},\n   \"source\": [\n    \"x\"\n   ]\n  }\n ],\n \"nbformat\": 4\n}";
    assert_eq!(inserted(empty, 0, CellKind::Raw, "x"), Ok(after.to_owned()));
}

#[test]
fn an_id_is_taken_once() {
    let first = free_id(0, "x", &[]);
    assert_ne!(free_id(0, "x", std::slice::from_ref(&first)), first);
}
