//! Writes what to do when an endpoint answers 503 in a storm, for one configuration and its
//! measured results.
//!
//! | module | writes |
//! |---|---|
//! | `settings` | what is configured, by key |
//! | `remedy` | which keys change a refusal, and what that costs |
//! | `reference` | what each refusal means, from the reference of refusals |
//! | `normal` | what was measured when all was well |
//! | `limit` | at which rate it ends, by a search for the capacity |

mod limit;
mod normal;
mod reference;
mod remedy;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use forebay_core::RefusalReason;

pub use limit::Limit;
pub use normal::Normal;
pub use settings::Settings;

use crate::report::SignOff;
use crate::report::escape::plain;
use reference::Meaning;

/// What a runbook is made of.
#[derive(Clone, Debug, Default)]
pub struct Runbook {
    /// The gateway's configuration with every default filled in; without it the runbook is for any
    /// gateway.
    pub settings: Option<Settings>,
    /// What was measured.
    pub normal: Vec<Normal>,
    /// Up to which rate the criteria hold, and from which on requests are refused.
    pub limit: Option<Limit>,
    /// Who decides, what was agreed, and when to call whom.
    pub sign_off: Option<SignOff>,
}

/// How any runbook begins.
pub const BEGINS: &str = "# When requests are refused in a storm";

impl Runbook {
    /// The runbook in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        self.head(&mut text);
        self.first_five_minutes(&mut text);
        self.normal(&mut text);
        if let Some(limit) = &self.limit {
            limit.write(&mut text);
        }
        self.where_to_look(&mut text);
        if self.settings.is_some() {
            self.reasons(&mut text);
            Self::changes(&mut text);
        } else {
            any_gateway(&mut text);
        }
        self.calls(&mut text);
        text
    }

    fn head(&self, text: &mut String) {
        let service = self
            .sign_off
            .as_ref()
            .map_or(String::new(), |sign_off| format!(": {}", plain(&sign_off.service)));
        let _ = write!(
            text,
            "{BEGINS}{service}\n\n\
             For whoever is on call when clients see 503 or 429. A refusal is an answer with a \
             reason; find the reason first, then change what it names. Restarting is never the \
             first step: it refuses everybody.\n\n\
             Written by `forebay runbook`; write it anew after a change of configuration or of \
             load.\n"
        );
    }

    fn first_five_minutes(&self, text: &mut String) {
        text.push_str("\n## The first five minutes\n\n");
        let mut steps = Vec::new();
        if self.settings.is_some() {
            steps.push(
                "Which reason? `sum by (class, reason) \
                 (rate(forebay_requests_refused_total[1m]))`. The tallest line decides which \
                 row of *What each reason means* to read."
                    .to_owned(),
            );
            steps.push(
                "Is it more load, or less capacity? Compare \
                 `sum(rate(forebay_requests_offered_total[1m]))` with *What normal looked like*, \
                 then `forebay_worker_usable`: a worker at 0 is lost capacity."
                    .to_owned(),
            );
            steps.push(
                "Ask the gateway: `curl -s http://GATEWAY/admin/fleet` (with an admin key) says of \
                 each worker its `state` and why."
                    .to_owned(),
            );
            steps.push(
                "Take one refused request's `x-request-id`, and read \
                 `/admin/explain/ID`: a paragraph on what was decided and why."
                    .to_owned(),
            );
        } else {
            steps.push(
                "Which status, from whom? 429 is mostly a limit on one client, 503 is want of room \
                 or a worker that is gone, 502 and 504 come from a proxy whose upstream failed. \
                 `curl -si URL | head -20` shows which server answered."
                    .to_owned(),
            );
            steps.push(
                "Is it more load, or less capacity? Compare requests a second with what normal \
                 looked like, then count the engines that answer `/health`."
                    .to_owned(),
            );
            steps.push(
                "Look at the engines: vLLM's `vllm:num_requests_waiting` above 0 and \
                 `vllm:kv_cache_usage_perc` near 1 say that they are full."
                    .to_owned(),
            );
        }
        if let Some(limit) = &self.limit {
            steps.push(limit.step());
        }
        steps.push(
            "Are clients retrying? Requests that rise while completed ones do not are retries. \
             Ask the largest client to obey Retry-After before anything is enlarged."
                .to_owned(),
        );
        steps.push(self.limit_step());
        for (nth, step) in steps.iter().enumerate() {
            let _ = writeln!(text, "{}. {step}", nth + 1);
        }
    }

    /// Whether what is refused is within what was agreed.
    fn limit_step(&self) -> String {
        let agreed = self.sign_off.as_ref().map_or(&[][..], |sign_off| &sign_off.agreed);
        let percent = crate::drill::notation::percent;
        let limits: Vec<String> = agreed
            .iter()
            .map(|one| {
                let who = one.class.as_deref().map_or("all requests".to_owned(), plain);
                format!("{} of {who}", percent(one.refused_share_max))
            })
            .collect();
        if limits.is_empty() {
            return "No share of refusals was agreed. Any that lasts is worth a call.".to_owned();
        }
        format!(
            "Is it within what was agreed? At most {} may be refused. Within it, watch; beyond it, \
             act, and tell those below.",
            crate::drill::notation::listed(&limits)
        )
    }

    fn normal(&self, text: &mut String) {
        text.push_str("\n## What normal looked like\n\n");
        if self.normal.is_empty() {
            text.push_str(
                "Nothing was measured yet. Run `forebay load` at the usual rate, and write this \
                 page again with `--results`.\n",
            );
            return;
        }
        text.push_str(
            "Measured over all that were offered, those refused included.\n\n\
             | measured | offered | completed a second | TTFT p50 | TTFT p90 | refused | verdict \
             |\n|---|---|---|---|---|---|---|\n",
        );
        for normal in &self.normal {
            let cells = normal.cells().map(|cell| plain(&cell).replace('|', "\\|"));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push_str(
            "\nMore than twice the usual rate is a storm from outside. The usual rate with more \
             refusals is lost capacity.\n",
        );
    }

    fn where_to_look(&self, text: &mut String) {
        text.push_str("\n## Where to look, in this order\n\n");
        if self.settings.is_none() {
            text.push_str(
                "| look at | it says |\n|---|---|\n\
                 | requests by status at the door | who is refused, and since when |\n\
                 | `vllm:num_requests_running`, `vllm:num_requests_waiting` | how full engines are \
                 |\n| `vllm:kv_cache_usage_perc` | memory, the usual bottleneck |\n\
                 | `vllm:num_preemptions_total` | engines that take work back: too much was let in \
                 |\n| `vllm:time_to_first_token_seconds` | what those who are served wait |\n",
            );
            return;
        }
        text.push_str(
            "| nth | metric | what it means | what to do about it |\n|---|---|---|---|\n",
        );
        for (nth, metric) in remedy::METRICS.iter().enumerate() {
            let _ = writeln!(
                text,
                "| {} | `{}` | {} | {} |",
                nth + 1,
                metric.name,
                metric.means,
                metric.then
            );
        }
    }

    fn reasons(&self, text: &mut String) {
        let Some(settings) = &self.settings else { return };
        text.push_str(
            "\n## What each reason means\n\n\
             | reason | HTTP | when | what a client should do | set by, now |\n\
             |---|---|---|---|---|\n",
        );
        for reason in RefusalReason::ALL {
            let meaning = Meaning::of(reason);
            let keys: Vec<String> =
                remedy::of(reason).keys.iter().map(|key| settings.shown(*key)).collect();
            let keys = if keys.is_empty() { "–".to_owned() } else { keys.join("; ") };
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {keys} |",
                reason.label(),
                reason.status(),
                meaning.when,
                meaning.client
            );
        }
    }

    fn changes(text: &mut String) {
        text.push_str(
            "\n## What to change, and what it costs\n\n\
             Change one thing, wait two minutes, look again. The file is watched: most keys take \
             effect without a restart, and `forebay serve --config FILE --check` tells every fault \
             before.\n\n| reason | change | what that costs |\n|---|---|---|\n",
        );
        for reason in RefusalReason::ALL {
            let remedy = remedy::of(reason);
            let _ =
                writeln!(text, "| `{}` | {} | {} |", reason.label(), remedy.change, remedy.costs);
        }
        text.push_str(
            "\nMore workers help against every reason that is for want of room, and cost money \
             only: `/admin/workers/join` adds one at once.\n",
        );
    }

    fn calls(&self, text: &mut String) {
        text.push_str("\n## When to call whom\n\n");
        let Some(sign_off) = &self.sign_off else {
            text.push_str("Nobody was named. Give `--sign-off`, with `[[call]]` tables in it.\n");
            return;
        };
        for call in &sign_off.calls {
            let how = call.how.as_deref().map_or(String::new(), |how| format!(", {}", plain(how)));
            let _ = writeln!(text, "- {}: **{}**{how}", plain(&call.when), plain(&call.whom));
        }
        for person in &sign_off.decides {
            let parts: Vec<String> =
                [&person.name, &person.role].into_iter().flatten().map(|it| plain(it)).collect();
            let _ = writeln!(
                text,
                "- before a limit that was agreed is changed: **{}**, who decides",
                parts.join(", ")
            );
        }
        if let Some(contact) = &sign_off.contact {
            let _ = writeln!(text, "- anything else: {}", plain(contact));
        }
    }
}

/// What statuses mean where nothing is known of what stands at the door.
fn any_gateway(text: &mut String) {
    text.push_str(
        "\n## What each status means\n\n| status | usual meaning | first thing to change |\n\
         |---|---|---|\n\
         | 429 | a limit on this client | the limit, or the client |\n\
         | 503 | no room, or no worker | workers, or how long requests may wait |\n\
         | 529 | no room, in some APIs | as for 503 |\n\
         | 502 | a proxy's upstream broke | find the engine that restarts |\n\
         | 504 | a proxy's upstream was silent | its timeout against the engines' queues |\n",
    );
    text.push_str(
        "\nWith `--config` this page has the reasons of a Forebay gateway, and the present value \
         of each key.\n",
    );
}
