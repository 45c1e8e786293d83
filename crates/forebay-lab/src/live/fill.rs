//! Puts ports, workers and paths into the commands of a drill's file.
//!
//! | placeholder | stands for |
//! |---|---|
//! | `{port}` | a port that is free, one for each start |
//! | `{port2}` | another one, for metrics or the like |
//! | `{nth}` | the place of a worker, from 0 |
//! | `{workers}` | the number of workers |
//! | `{worker_url}` | a worker's URL; an argument that has it is repeated for each worker |
//! | `{worker_urls}` | all of them, with commas between |
//! | `{model}` | the model that is asked for |
//! | `{config}` | the path of the file that `config` is written to |

use std::fmt::Write as _;

/// What the placeholders stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filling {
    /// `{port}` and `{port2}`.
    pub ports: [u16; 2],
    /// `{nth}`.
    pub nth: usize,
    /// `{worker_url}` and `{worker_urls}`; their number is `{workers}` unless that is given.
    pub workers: Vec<String>,
    /// `{workers}`, where the commands start the workers themselves.
    pub workers_len: u32,
    /// `{model}`.
    pub model: String,
    /// `{config}`.
    pub config: String,
}

/// The placeholder that repeats its argument.
const EACH: &str = "{worker_url}";
/// All names of placeholders.
pub(super) const NAMES: [&str; 8] =
    ["port", "port2", "nth", "workers", "worker_url", "worker_urls", "model", "config"];

impl Filling {
    /// The arguments of a command.
    pub fn words(&self, words: &[String]) -> Vec<String> {
        let mut filled = Vec::new();
        for word in words {
            if word.contains(EACH) {
                filled.extend(self.workers.iter().map(|url| self.text(&word.replace(EACH, url))));
            } else {
                filled.push(self.text(word));
            }
        }
        filled
    }

    /// A text with its placeholders filled. `{worker_url}` in it becomes a list of TOML, since a
    /// text has no arguments to repeat.
    pub fn text(&self, text: &str) -> String {
        let quoted = self.workers.iter().fold(String::new(), |mut list, url| {
            let gap = if list.is_empty() { "" } else { ", " };
            let _ = write!(list, "{gap}{url:?}");
            list
        });
        [
            ("{port}", self.ports[0].to_string()),
            ("{port2}", self.ports[1].to_string()),
            ("{nth}", self.nth.to_string()),
            ("{workers}", self.workers_len.to_string()),
            (EACH, quoted),
            ("{worker_urls}", self.workers.join(",")),
            ("{model}", self.model.clone()),
            ("{config}", self.config.clone()),
        ]
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }
}

/// A name in braces that stands for nothing, if a text has one. Braces around anything but small
/// letters and digits are left alone: JSON has them.
pub(super) fn unknown(text: &str) -> Option<&str> {
    text.split('{').skip(1).find_map(|rest| {
        let name = &rest[..rest.find('}')?];
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_placeholder = !name.is_empty() && name.bytes().all(is_name);
        (is_placeholder && !NAMES.contains(&name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::{Filling, unknown};

    fn filling() -> Filling {
        Filling {
            ports: [8001, 8002],
            nth: 1,
            workers: vec!["http://a".to_owned(), "http://b".to_owned()],
            workers_len: 2,
            model: "m".to_owned(),
            config: "logs/c.toml".to_owned(),
        }
    }

    #[test]
    fn an_argument_that_names_a_worker_is_repeated_for_each() {
        let words =
            ["--port={port}", "--urls", "{worker_url}", "--worker={worker_url}", "{workers}"];
        let words = words.map(str::to_owned);
        let filled = filling().words(&words).join(" ");
        assert_eq!(
            filled,
            "--port=8001 --urls http://a http://b --worker=http://a --worker=http://b 2"
        );
    }

    #[test]
    fn a_text_names_all_workers_as_a_list() {
        let text = filling().text("worker = [{worker_url}] # {worker_urls} {port2} {\"a\":{}}");
        assert_eq!(
            text,
            "worker = [\"http://a\", \"http://b\"] # http://a,http://b 8002 {\"a\":{}}"
        );
    }

    #[test]
    fn a_name_that_stands_for_nothing_is_found_and_json_is_not() {
        assert_eq!(unknown("--port {prot}"), Some("prot"));
        assert_eq!(unknown("{\"model\": {}} {port} {A} {"), None);
    }
}
