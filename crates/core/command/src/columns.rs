//! Text in columns.

/// Formats rows below their head as columns, each as wide as its longest text.
pub fn columns<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let rows: Vec<[String; N]> = std::iter::once(head.map(String::from)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let cells: Vec<String> = cells.collect();
        line!(text, "{}", cells.join("  ").trim_end());
    }
    text
}
