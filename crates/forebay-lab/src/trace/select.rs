//! Takes a part of a trace: by time, by number, by length, by class or tenant.

use forebay_core::Span;

use super::{Requests, TraceRequest};

/// A part of a trace by time and number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slice {
    /// Requests from this time on.
    pub from: Span,
    /// Requests before this time.
    pub to: Option<Span>,
    /// At most this many.
    pub first: Option<u64>,
    /// Leave times as they are, instead of counting them from `from`.
    pub keep_times: bool,
}

impl Slice {
    /// The requests of the part. Reads no further than it must.
    pub fn apply(self, requests: Requests) -> Requests {
        let Self { from, to, first, keep_times } = self;
        let base = if keep_times { Span::ZERO } else { from };
        let part = requests
            .skip_while(move |request| request.as_ref().is_ok_and(|request| request.at < from))
            .take_while(move |request| match (request, to) {
                (Ok(request), Some(to)) => request.at < to,
                _ => true,
            })
            .map(move |request| {
                request.map(|request| TraceRequest { at: request.at - base, ..request })
            });
        match first {
            Some(first) => Box::new(part.take(usize::try_from(first).unwrap_or(usize::MAX))),
            None => Box::new(part),
        }
    }
}

/// Which requests to keep. An empty list of names keeps all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Prompts of at least this many tokens.
    pub prompt_min: Option<u64>,
    /// Prompts of at most this many tokens.
    pub prompt_max: Option<u64>,
    /// Answers of at least this many tokens.
    pub output_min: Option<u64>,
    /// Answers of at most this many tokens.
    pub output_max: Option<u64>,
    /// Requests of these classes.
    pub classes: Vec<String>,
    /// Requests of these tenants.
    pub tenants: Vec<String>,
}

impl Filter {
    /// Whether to keep this request.
    pub fn keeps(&self, request: &TraceRequest) -> bool {
        let within = |value: u64, min: Option<u64>, max: Option<u64>| {
            min.is_none_or(|min| min <= value) && max.is_none_or(|max| value <= max)
        };
        let named = |names: &[String], name: Option<&str>| {
            names.is_empty() || name.is_some_and(|name| names.iter().any(|other| other == name))
        };
        within(request.prompt.0, self.prompt_min, self.prompt_max)
            && within(request.output.0, self.output_min, self.output_max)
            && named(&self.classes, request.class.as_deref())
            && named(&self.tenants, request.tenant.as_deref())
    }

    /// The requests that are kept, at their times.
    pub fn apply(self, requests: Requests) -> Requests {
        let keeps = move |request: &Result<TraceRequest, _>| {
            request.as_ref().map_or(true, |request| self.keeps(request))
        };
        Box::new(requests.filter(keeps))
    }
}
