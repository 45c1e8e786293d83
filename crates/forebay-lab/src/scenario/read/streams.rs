//! Reads the streams of requests.

use forebay_core::Span;
use forebay_service::reader::{At, Section};
use forebay_service::{Faults, Service};

use super::Reader;
use crate::scenario::{Rate, Shape, Stream, keys};
use crate::trace::synth::{Description, DescriptionError};

impl Reader<'_> {
    /// One stream.
    pub(super) fn stream(&mut self, mut table: Section<'_>, service: &Service) -> Option<Stream> {
        let line = table.line;
        let requests = table.number(&keys::REQUESTS, self.found);
        let requests = self.required(requests, line, "requests", "say how many there are");
        let from = table.number(&keys::FROM_S, self.found);
        let load = table.number(&keys::LOAD, self.found);
        let per_s = table.number(&keys::PER_S, self.found);
        if let (Some(_), Some(per_s)) = (&load, &per_s) {
            self.found.add(per_s.line, "a stream has both a `load` and a `per_s`", "drop one");
        }
        let class = table.text("class", self.found);
        let classes = service.classes.iter().map(|class| class.name.as_str());
        self.known(class.as_ref(), "class", classes);
        let tenant = table.text("tenant", self.found);
        let tenants = service.tenants.iter().map(|tenant| tenant.name.as_str());
        self.known(tenant.as_ref(), "tenant", tenants);
        let shape = self.shape(&mut table);
        table.finish(self.found);
        let text = |at: Option<At<String>>| at.map(|at| at.value);
        Some(Stream {
            requests: requests?.value as u64,
            from: Span::secs_f64(from.map_or(0.0, |at| at.value)),
            rate: match per_s {
                Some(per_s) => Rate::PerS(per_s.value),
                None => Rate::Load(load.map_or(1.0, |at| at.value)),
            },
            shape: shape?,
            class: text(class),
            tenant: text(tenant),
        })
    }

    fn shape(&mut self, table: &mut Section<'_>) -> Option<Shape> {
        let line = table.line;
        let prompt = table.numbers(&keys::PROMPT, self.found);
        let output = table.numbers(&keys::OUTPUT, self.found);
        let prefix_tokens = table.number(&keys::PREFIX_TOKENS, self.found);
        let prefixes = table.number(&keys::PREFIXES, self.found);
        if let Some(synth) = table.text("synth", self.found) {
            if !(prompt.is_empty() && output.is_empty() && prefix_tokens.is_none()) {
                let what = "a stream has both a `synth` and lengths of its own";
                self.found.add(synth.line, what, "drop one");
            }
            return match Description::find(&self.path(&synth.value)) {
                Ok(description) => Some(Shape::Synth(Box::new(description))),
                Err(DescriptionError::Unusable(error)) => {
                    self.found.add(synth.line, error.what, error.remedy);
                    None
                }
                Err(DescriptionError::Faulty(Faults { file, faults })) => {
                    for fault in faults {
                        let what = format!("{}:{}: {}", file.display(), fault.line, fault.what);
                        self.found.add(synth.line, what, fault.remedy);
                    }
                    None
                }
            };
        }
        let prompt = self.range(&prompt, line, "prompt");
        let output = self.range(&output, line, "output");
        let (prompt, output) = (prompt?, output?);
        let prefix_tokens = prefix_tokens.map_or(0, |at| at.value as u64);
        if prefix_tokens >= prompt.0 {
            let what = format!("a prefix of {prefix_tokens} tokens fills its shortest prompt");
            self.found.add(line, what, "make the prefix shorter than the shortest prompt");
        }
        let prefixes = prefixes.map_or(1, |at| at.value as u64);
        Some(Shape::Plain { prompt, output, prefix_tokens, prefixes })
    }

    /// One number, or the least and the most.
    fn range(&mut self, numbers: &[At<f64>], line: usize, key: &str) -> Option<(u64, u64)> {
        let remedy = format!("give one number or two, such as `{key} = [200, 800]`");
        match numbers {
            [one] => Some((one.value as u64, one.value as u64)),
            [least, most] if least.value <= most.value => {
                Some((least.value as u64, most.value as u64))
            }
            [] => {
                self.found.add(line, format!("a stream has neither `synth` nor `{key}`"), remedy);
                None
            }
            [first, ..] => {
                self.found.add(first.line, format!("`{key}` is no range"), remedy);
                None
            }
        }
    }
}
