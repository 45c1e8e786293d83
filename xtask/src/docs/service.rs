//! Writes the reference of the service file from the one table of its keys.

use std::fmt::Write as _;

use forebay_service::{COUNTS, NOTES, TABLE};

use super::NOTE;
use crate::workspace::Workspace;

const ABOUT: &str = "\
The file that says what happens at the door: classes, tenants, pools, the gate and bounds. These are
its keys that hold numbers; the others are explained in [overload](../concepts/overload.md). All
faults of a file are reported at once, each with its line. [The gateway's file](config.md) has the
same tables, but for `[[pool]]`; there, `traffic` means nothing.";

/// A table for each table of the file, in its own order.
pub(super) fn page(_: &Workspace) -> anyhow::Result<String> {
    let mut page = format!("# The service file\n\n{NOTE}\n\n{ABOUT}\n");
    let mut tables: Vec<&str> = TABLE.iter().map(|key| key.table).collect();
    tables.dedup();
    for table in tables {
        write!(page, "\n## `{table}`\n\n")?;
        if let Some(count) = COUNTS.iter().find(|count| count.table == table) {
            write!(page, "There may be {} of them: {}.\n\n", count.most, count.why)?;
        }
        if let Some((_, note)) = NOTES.iter().find(|(of, _)| *of == table) {
            write!(page, "{note}\n\n")?;
        }
        write!(page, "| key | value | without it |\n|---|---|---|\n")?;
        for key in TABLE.iter().filter(|key| key.table == table) {
            writeln!(page, "| `{}` | {} | {} |", key.name, key.wanted(), key.why)?;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::workspace::Workspace;

    #[test]
    fn every_table_of_keys_has_one_section() {
        let text = page(&Workspace::find().unwrap()).unwrap();
        for table in ["class", "tenant", "pool", "gate", "limits"] {
            assert_eq!(text.matches(&format!("\n## `{table}`\n")).count(), 1, "{table}");
        }
    }
}
