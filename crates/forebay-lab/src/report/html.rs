//! Writes the parts of a page: tables, figures, sentences.

use std::fmt::Write as _;

use super::escape::Escaped;

/// A table: a caption, heads of columns, rows. The first cell of a row is its head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows, in one sentence.
    pub caption: String,
    /// Heads of the columns.
    pub head: Vec<String>,
    /// Cells, as text.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(caption: &str, head: &[&str]) -> Self {
        Self {
            caption: caption.to_owned(),
            head: head.iter().map(|cell| (*cell).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as HTML. Cells that look like figures are set to the right. `marked` are rows to
    /// stand out.
    pub fn html(&self, marked: &dyn Fn(&[String]) -> bool) -> String {
        let mut html = format!(
            "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>",
            Escaped(&self.caption)
        );
        for (nth, cell) in self.head.iter().enumerate() {
            let class = if self.column_is_figures(nth) { " class=\"figures\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", Escaped(cell));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        // Rows of one number of workers, or of one cell, belong together.
        let grouped = self.head.first().is_some_and(|head| head == "N" || head == "cell");
        for (nth, row) in self.rows.iter().enumerate() {
            let begins = grouped && nth > 0 && self.rows[nth - 1].first() != row.first();
            html.push_str(match (marked(row), begins) {
                (true, true) => "<tr class=\"marked group\">",
                (true, false) => "<tr class=\"marked\">",
                (false, true) => "<tr class=\"group\">",
                (false, false) => "<tr>",
            });
            for (nth, cell) in row.iter().enumerate() {
                let class = if self.column_is_figures(nth) { " class=\"figures\"" } else { "" };
                let text = Escaped(cell);
                let _ = if nth == 0 {
                    write!(html, "<th scope=\"row\"{class}>{text}</th>")
                } else {
                    write!(html, "<td{class}>{text}</td>")
                };
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table></div>\n");
        html
    }

    fn column_is_figures(&self, column: usize) -> bool {
        // A sentence may begin with a figure, and is none.
        let figure = |cell: &String| {
            cell.chars().count() < 25
                && cell
                    .starts_with(|first: char| first.is_ascii_digit() || "∞–−+±≤≥".contains(first))
        };
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        cells().count() > 0 && cells().all(figure)
    }
}

/// A paragraph of text.
pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", Escaped(text))
}

/// A list of sentences.
pub fn list(items: &[String]) -> String {
    let item = |item: &String| format!("<li>{}</li>\n", Escaped(item));
    let items = items.iter().map(item).collect::<Vec<_>>().concat();
    format!("<ul>\n{items}</ul>\n")
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn a_table_names_its_heads_and_escapes_its_cells() {
        let mut table = Table::new("a < b", &["arm", "p50"]);
        table.row(["<script>".to_owned(), "1.2 s".to_owned()]);
        table.row(["hold".to_owned(), "∞".to_owned()]);
        insta::assert_snapshot!(table.html(&|row| row[0] == "hold"), @r#"
        <div class="scroll"><table>
        <caption>a &lt; b</caption>
        <thead><tr><th scope="col">arm</th><th scope="col" class="figures">p50</th></tr></thead>
        <tbody>
        <tr><th scope="row">&lt;script&gt;</th><td class="figures">1.2 s</td></tr>
        <tr class="marked"><th scope="row">hold</th><td class="figures">∞</td></tr>
        </tbody>
        </table></div>
        "#);
    }
}
