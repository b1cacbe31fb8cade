//! Plain tables for terminals.
//!
//! Must never know: what is in them.

/// Lays rows out in columns; the first row is the heading. Columns whose cells all begin with a digit, or are empty or a
/// dash, are right-aligned.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let cell = |row: &'_ Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let width = |text: &str| text.chars().count();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .map(|row| width(&cell(row, column)))
                .max()
                .unwrap_or_default()
        })
        .collect();
    let numeric: Vec<bool> = (0..columns)
        .map(|column| {
            rows.iter().skip(1).all(|row| {
                let text = cell(row, column);
                text.is_empty() || text == "–" || text.starts_with(|c: char| c.is_ascii_digit())
            })
        })
        .collect();
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        let line: Vec<String> = (0..columns)
            .map(|column| {
                let text = cell(row, column);
                let fill = " ".repeat(widths[column] - width(&text));
                if numeric[column] {
                    fill + &text
                } else {
                    text + &fill
                }
            })
            .collect();
        out.push_str(line.join("  ").trim_end());
        out.push('\n');
        if index == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push_str(&rule.join("  "));
            out.push('\n');
        }
    }
    out
}
