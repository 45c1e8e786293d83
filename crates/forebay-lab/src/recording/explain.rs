//! Tells the story of one request: who, when, behind whom, where to and why, or why not.

use std::fmt::Write;
use std::path::Path;

use forebay_core::{
    Arrival, ClassId, Input, Moment, Observation, Outcome, Output, Refusal, RefusalReason,
    RequestId, Settings, Span, TenantId, Why, WorkerId,
};
use forebay_wire::recording::Ending;

use super::opened::{Event, Opened};
use super::{RecordingFault, Seconds};

/// Most columns of a line.
const COLUMNS: usize = 88;

/// Everything that a recording says of one request, a paragraph for each decision, in their order.
pub fn explain(file: &Path, request: u64) -> Result<String, RecordingFault> {
    let request = RequestId(request);
    let mut opened = Opened::open(file)?;
    let mut story = Story {
        request,
        settings: opened.settings.clone(),
        classes: opened.header().classes.clone(),
        tenants: opened.header().tenants.clone(),
        class: None,
        tenant: None,
        worker: None,
        ended: false,
        paragraphs: Vec::new(),
    };
    let mut ids: Option<(RequestId, RequestId)> = None;
    while let Some((at, event)) = opened.next()? {
        if let Event::Input(Input::Arrived(arrival)) = &event {
            let id = arrival.request;
            ids = Some(ids.map_or((id, id), |(low, high)| (low.min(id), high.max(id))));
        }
        match event {
            Event::Input(input) => story.told(at, input),
            Event::Output(output) => story.said(at, &output),
        }
    }
    if story.paragraphs.is_empty() {
        return Err(unknown(file, request, ids));
    }
    if !story.ended {
        story.paragraphs.push(match opened.ending() {
            Ending::Complete => "The recording ends before the request does.".to_owned(),
            Ending::Cut => "The recording reached its bound before the request's end.".to_owned(),
            Ending::Torn => "The recording was torn off before the request's end.".to_owned(),
        });
    }
    let wrapped: Vec<String> = story.paragraphs.iter().map(|text| wrapped(text)).collect();
    Ok(wrapped.join("\n\n"))
}

fn unknown(file: &Path, request: RequestId, ids: Option<(RequestId, RequestId)>) -> RecordingFault {
    let remedy = match ids {
        None => "no request arrives in this recording".to_owned(),
        Some((low, high)) => format!("name a request from {} to {}", low.0, high.0),
    };
    RecordingFault { file: file.to_owned(), what: format!("there is no {request}"), remedy }
}

/// What is known of the request so far.
struct Story {
    request: RequestId,
    settings: Settings,
    classes: Vec<String>,
    tenants: Vec<String>,
    /// Its class, once it has arrived.
    class: Option<ClassId>,
    /// Its tenant, once it has arrived.
    tenant: Option<TenantId>,
    /// Where it runs.
    worker: Option<WorkerId>,
    ended: bool,
    paragraphs: Vec<String>,
}

impl Story {
    /// Takes what the core was told.
    fn told(&mut self, at: Moment, input: Input) {
        let at = Seconds::of(at);
        match input {
            Input::Arrived(arrival) if arrival.request == self.request => {
                self.arrived(at, &arrival);
            }
            Input::FirstToken(request) if request == self.request => {
                self.add(format!("Its first token came at {at}."));
            }
            Input::Prefilled(request) if request == self.request => {
                self.add(format!("By {at} it was taken to be past its first token."));
            }
            Input::Finished(request, outcome) if request == self.request => {
                self.finished(at, outcome);
            }
            Input::Abandoned(request) if request == self.request => {
                self.ended = true;
                self.add(format!("Its client went away at {at}."));
            }
            Input::Observed(worker, Observation::Left | Observation::Joined(_))
                if self.worker == Some(worker) =>
            {
                self.worker = None;
                self.add(format!("At {at} {worker} was lost, and the request with it."));
            }
            Input::Reconfigured(settings) => self.settings = *settings,
            _ => {}
        }
    }

    /// Takes what the core said.
    fn said(&mut self, at: Moment, output: &Output) {
        let (request, at) = (self.request, Seconds::of(at));
        match output {
            Output::Dispatch(id, worker, why) if *id == request => {
                self.worker = Some(*worker);
                let promise = self.promise(why);
                self.add(format!("At {at} {request} was sent to {worker}. {why}{promise}"));
            }
            Output::Spill(id, pool, why) if *id == request => {
                self.ended = true;
                self.add(format!("At {at} {request} was handed to pool {}. {why}", pool.0));
            }
            Output::Refuse(id, refusal) if *id == request => {
                self.ended = true;
                let what = if refusal.reason.is_failure() { "failed" } else { "was refused" };
                let refusal = self.refusal(refusal);
                self.add(format!("At {at} {request} {what}: {refusal}"));
            }
            Output::Cancel(id, worker) if *id == request => {
                self.worker = None;
                self.add(format!("At {at} {worker} was told to stop working on it."));
            }
            _ => {}
        }
    }

    fn arrived(&mut self, at: Seconds, arrival: &Arrival) {
        self.class = Some(arrival.class);
        self.tenant = Some(arrival.tenant);
        let mut text = format!(
            "{} (class {}, tenant {}) arrived at {at} with a prompt of {}, {} blocks of it hashed",
            capital(&arrival.request.to_string()),
            self.class_name(arrival.class),
            self.tenant_name(arrival.tenant),
            arrival.prompt,
            arrival.blocks.len(),
        );
        if let Some(most) = arrival.output_max {
            let _ = write!(text, ", and asked for {most} of output at most");
        }
        text.push('.');
        if let Some(ticket) = arrival.ticket {
            let first = Seconds::of(ticket.first_arrived);
            let promised = Seconds::of(ticket.promised);
            let _ = write!(
                text,
                " It had been offered first at {first}, was refused, and told to come back at \
                 {promised}."
            );
        }
        self.add(text);
    }

    fn finished(&mut self, at: Seconds, outcome: Outcome) {
        self.worker = None;
        self.ended = matches!(outcome, Outcome::Completed { .. } | Outcome::ClientFault);
        self.add(match outcome {
            Outcome::Completed { output } => format!("It ended well at {at}, with {output}."),
            Outcome::Backpressure => format!("At {at} the worker would not take it: it was full."),
            Outcome::Broke => format!("At {at} the worker broke before its first byte."),
            Outcome::BrokeMidStream => format!("At {at} the worker broke after its first byte."),
            Outcome::ClientFault => format!("At {at} the worker said that it is at fault itself."),
        });
    }

    /// What its class promised it, as a sentence of its own.
    fn promise(&self, why: &Why) -> String {
        let class = self.class.and_then(|class| self.settings.classes.get(usize::from(class.0)));
        match class {
            Some(class)
                if class.promise.is_finite()
                    && why.predicted_wait.is_some_and(|wait| wait > Span::ZERO) =>
            {
                let wait = why.predicted_wait.unwrap_or_default();
                let span = Seconds(wait.scaled(class.promise));
                let times = class.promise;
                format!(
                    " Its class promised that it would go first once it had waited {span}, \
                     {times} times what first-come was predicted to cost it."
                )
            }
            _ => String::new(),
        }
    }

    /// A refusal in words. What was agreed with a tenant can be less than one a second, which the
    /// refusal's own limit, a whole number, can't say.
    fn refusal(&self, refusal: &Refusal) -> String {
        let text = refusal.to_string();
        let tenant = self.settings.tenants.iter().find(|(id, _)| Some(*id) == self.tenant);
        let tenant = tenant.map_or(&self.settings.tenant_default, |(_, settings)| settings);
        let agreed = match refusal.reason {
            RefusalReason::TenantRate => tenant.rate,
            RefusalReason::TenantTokens => tenant.tokens,
            _ => None,
        };
        let Some(agreed) = agreed else { return text };
        let rounded = format!("agreed: {} a second", refusal.limit);
        text.replacen(&rounded, &format!("agreed: {} a second", agreed.per_second), 1)
    }

    fn add(&mut self, text: String) {
        self.paragraphs.push(text);
    }

    fn class_name(&self, class: ClassId) -> String {
        name(&self.classes, usize::from(class.0))
    }

    fn tenant_name(&self, tenant: TenantId) -> String {
        name(&self.tenants, tenant.0 as usize)
    }
}

/// The name at a place, or the place where there is none.
fn name(names: &[String], place: usize) -> String {
    names.get(place).cloned().unwrap_or_else(|| place.to_string())
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The text in lines of at most [`COLUMNS`], broken between words.
fn wrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}
