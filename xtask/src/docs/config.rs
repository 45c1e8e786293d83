//! Writes the reference of the gateway's file from the tables of its keys.

use std::fmt::Write as _;

use forebay_gateway::config::defaults::{COUNTS, TABLE, TABLES, WORDS};

use super::NOTE;
use crate::workspace::Workspace;

const ABOUT: &str = "\
What `forebay serve --config FILE` reads. Classes, tenants, the gate and limits are those of
[the service file](service.md), so that the lab and the gateway mean the same by them; `[[pool]]` is
the gateway's own. [An example](../examples/forebay.toml) has the most of it. All faults of a file
are reported at once, each with its line; `--check` does only that, and shows what is meant with
every default filled in. Paths begin at the folder of the file.

Most of it can be changed while the gateway runs: classes, tenants, limits, keys, workers, modes,
timeouts, probes and the bounds on bodies. What can't is named when it is tried, and then nothing is
changed.";

/// A table for each table of the file, in its own order.
pub(super) fn page(_: &Workspace) -> anyhow::Result<String> {
    let mut page = format!("# The gateway's file\n\n{NOTE}\n\n{ABOUT}\n");
    for (table, about) in TABLES {
        write!(page, "\n## `{table}`\n\n{about}")?;
        if let Some(count) = COUNTS.iter().find(|count| count.table == table) {
            write!(page, " There may be {} of them: {}.", count.most, count.why)?;
        }
        write!(page, "\n\n| key | value | without it |\n|---|---|---|\n")?;
        for word in WORDS.iter().filter(|word| word.table == table) {
            writeln!(page, "| `{}` | {} | {} |", word.name, word.wanted, word.why)?;
        }
        for key in TABLE.iter().filter(|key| key.table == table) {
            writeln!(page, "| `{}` | {} | {} |", key.name, key.wanted(), key.why)?;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use forebay_gateway::config::defaults::{TABLE, WORDS};

    use super::page;
    use crate::workspace::Workspace;

    #[test]
    fn every_key_has_one_row_in_the_section_of_its_table() {
        let text = page(&Workspace::find().unwrap()).unwrap();
        let words = WORDS.iter().map(|word| (word.table, word.name));
        let numbers = TABLE.iter().map(|key| (key.table, key.name));
        for (table, name) in words.chain(numbers) {
            let section =
                text.split("\n## ").find(|part| part.starts_with(&format!("`{table}`\n")));
            let rows = section.map_or(0, |part| part.matches(&format!("\n| `{name}` | ")).count());
            assert_eq!(rows, 1, "{table}.{name}");
        }
    }
}
