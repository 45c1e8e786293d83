//! Finds the present value of a key in a configuration whose defaults are all filled in.
//!
//! The lab knows no gateway: the program hands over the text that `forebay serve --check` shows.

use toml::{Table, Value};

/// A configuration, every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings(Table);

impl Settings {
    /// Reads what `forebay serve --check` shows; `None` of what is no TOML.
    pub fn of_shown(shown: &str) -> Option<Self> {
        shown.parse::<Table>().ok().map(Self)
    }

    /// A key with its value, or with that of each table that has one: `` `[class] wait_ms_max` ``,
    /// public 60000, research 2000.
    pub(super) fn shown(&self, (table, key): (&str, &str)) -> String {
        let said = match self.0.get(table) {
            Some(Value::Array(tables)) => {
                let each = tables.iter().filter_map(Value::as_table);
                let each: Vec<String> = each
                    .map(|one| {
                        let name = one.get("name").and_then(Value::as_str).unwrap_or("one");
                        let value = one.get(key).map_or("no limit".to_owned(), value);
                        format!("{} {value}", crate::report::escape::plain(name))
                    })
                    .collect();
                cut(&each)
            }
            Some(Value::Table(one)) => one.get(key).map_or("no limit".to_owned(), value),
            _ => "not set".to_owned(),
        };
        format!("`[{table}] {key}`: {said}").replace('|', "\\|")
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", text.replace('`', "'")),
        other => other.to_string(),
    }
}

/// The first of many.
fn cut(each: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    let more = each.len().saturating_sub(SHOWN_MAX);
    let shown = each.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}
