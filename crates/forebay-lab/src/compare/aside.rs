//! Says who was not served, what was spent for nothing, and how long recovery took.

use std::collections::BTreeMap;

use forebay_core::Span;

use super::comparison::{Buckets, Part, Recovery, Wasted, Who};
use super::request::{Request, buckets};
use crate::drill::notation::{duration_ms, three_digits};
use crate::results::Outcome;
use crate::stats::fairness::jain;

/// Parts of one kind at most: those with the most requests.
const PARTS_MAX: usize = 50;
/// From here on a refusal came late: a client could have gone elsewhere meanwhile.
const LATE: Span = Span::secs(1);
/// Pieces into which a schedule is cut to find its busiest stretch.
const PIECES: usize = 20;
/// A piece belongs to the overload when it has this share of the busiest one's requests.
const BUSY: f64 = 0.8;

/// Who was not served, by tenant, class, prompt length and turn.
pub(super) fn who(requests: &[&Request]) -> Who {
    let quarters = quarters(requests);
    let tenants = parts(requests, "tenant", |it| it.tenant.as_deref().map(str::to_owned));
    let served: Vec<f64> = tenants.iter().map(|part| part.completed_share).collect();
    let mut by = tenants;
    by.extend(parts(requests, "class", |it| it.class.as_deref().map(str::to_owned)));
    let mut lengths = parts(requests, "prompt_tokens", |request| {
        let tokens = request.prompt_tokens?;
        let quarter = quarters.iter().position(|(_, most)| tokens <= *most)?;
        Some(format!("{quarter}"))
    });
    lengths.sort_by(|one, other| one.name.cmp(&other.name));
    for part in &mut lengths {
        let place: usize = part.name.parse().expect("it was made of a number");
        let (least, most) = quarters[place];
        part.name = format!("{least} to {most}");
    }
    by.extend(lengths);
    let has_turns = requests.iter().any(|request| request.turn > 0);
    by.extend(parts(requests, "turn", |it| has_turns.then(|| format!("{:>3}", it.turn))));
    for part in &mut by {
        part.name = part.name.trim().to_owned();
    }
    Who { jain_tenants: jain(&served), by }
}

fn parts(
    requests: &[&Request],
    kind: &'static str,
    name: impl Fn(&Request) -> Option<String>,
) -> Vec<Part> {
    let mut groups: BTreeMap<String, Vec<&Request>> = BTreeMap::new();
    for request in requests {
        if let Some(name) = name(request) {
            groups.entry(name).or_default().push(request);
        }
    }
    let mut groups: Vec<(String, Buckets)> =
        groups.into_iter().map(|(name, group)| (name, buckets(group.into_iter()))).collect();
    if groups.len() > PARTS_MAX {
        groups.sort_by(|one, other| other.1.offered.cmp(&one.1.offered).then(one.0.cmp(&other.0)));
        groups.truncate(PARTS_MAX);
        groups.sort_by(|one, other| one.0.cmp(&other.0));
    }
    let part = |(name, buckets): (String, Buckets)| Part {
        kind,
        name,
        buckets,
        refused_share: buckets.share(buckets.refused),
        completed_share: buckets.share(buckets.completed),
    };
    groups.into_iter().map(part).collect()
}

/// The least and the most tokens of each quarter of the prompts that are not empty.
fn quarters(requests: &[&Request]) -> Vec<(u64, u64)> {
    let mut tokens: Vec<u64> = requests.iter().filter_map(|it| it.prompt_tokens).collect();
    tokens.sort_unstable();
    let most = |nth: usize| tokens[(nth * tokens.len()).div_ceil(4) - 1];
    let mut found: Vec<(u64, u64)> = Vec::new();
    for nth in (1..=4).filter(|_| !tokens.is_empty()) {
        let least = found.last().map_or(tokens[0], |(_, most)| most + 1);
        if most(nth) >= least {
            found.push((least, most(nth)));
        }
    }
    found
}

/// What was spent for nothing.
pub(super) fn wasted(requests: &[&Request]) -> Wasted {
    let lost = requests.iter().filter(|request| request.outcome != Outcome::Completed);
    let lost: Vec<&&Request> = lost.collect();
    let sent = lost.iter().filter(|request| request.attempts > 0);
    let output: u64 = lost.iter().map(|request| request.generated).sum();
    let all: u64 = requests.iter().map(|request| request.generated).sum();
    let late = |request: &&&&Request| {
        request.outcome == Outcome::Refused && request.end - request.scheduled >= LATE
    };
    Wasted {
        refused_attempts: requests.iter().map(|request| request.attempts_refused).sum(),
        refused_after_waiting: lost.iter().filter(late).count() as u64,
        prompt_tokens: sent.filter_map(|request| request.prompt_tokens).sum(),
        output_tokens: output,
        output_share: if all == 0 { 0.0 } else { output as f64 / all as f64 },
        waited_s: requests.iter().map(|it| it.waited_in_vain.0 as f64 / 1e9).sum(),
    }
}

/// How long it took until what the overload had left was over. Our definition, since none is
/// agreed: the schedule is cut in twenty pieces of equal length; overload ends with the last piece
/// that has four fifths of the busiest one's requests; recovered is the arm when every request that
/// was due by then is over, one way or another. Refusing recovers fast: read it with the shares.
pub(super) fn recovery(requests: &[&Request]) -> Option<Recovery> {
    let first = requests.iter().map(|request| request.scheduled).min()?;
    let last = requests.iter().map(|request| request.scheduled).max()?;
    let whole = (last - first).0.max(1);
    let piece = |moment: Span| {
        (u128::from((moment - first).0) * PIECES as u128 / u128::from(whole))
            .min(PIECES as u128 - 1) as usize
    };
    let mut counts = [0_u64; PIECES];
    requests.iter().for_each(|request| counts[piece(request.scheduled)] += 1);
    let busiest = counts.iter().copied().max()?;
    let end = counts.iter().rposition(|count| *count as f64 >= BUSY * busiest as f64)?;
    let length = whole as f64 / PIECES as f64;
    let overload_end = Span(first.0 + (length * (end + 1) as f64) as u64);
    let due = requests.iter().filter(|request| request.scheduled <= overload_end);
    let over = due.map(|request| request.end).max()?;
    let after = (over - overload_end).0 as f64 / 1e9;
    let peak_rate = busiest as f64 / (length / 1e9);
    let said = format!(
        "{} after the busiest stretch ({}/s) all that was due by then was over",
        duration_ms(after * 1e3),
        three_digits(peak_rate)
    );
    Some(Recovery {
        overload_end_s: overload_end.0 as f64 / 1e9,
        peak_rate,
        after_s: Some(after),
        said,
    })
}
