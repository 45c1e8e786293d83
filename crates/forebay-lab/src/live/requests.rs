//! Cuts the requests of one block out of the drill's trace.
//!
//! All arms of a round get the same requests at the same moments. Rounds differ: of a synthetic
//! trace each has a seed of its own, of a file the next part, from the start again once it ends.

use super::design::{Cell, Design, Load};
use crate::drill::digest;
use crate::drill::stage::Source;
use crate::trace::{self, Filter, Notes, Requests, TraceError, TraceRequest, write_request};

/// The requests of one block, due on the wall's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Each request, in the order of its moment.
    pub requests: Vec<TraceRequest>,
    /// Requests a second that are offered, on the wall's clock.
    pub per_s: f64,
    /// Names these requests and moments by a hash.
    pub plan: String,
    /// What the reader of the trace passed over.
    pub notes: Vec<String>,
}

impl Block {
    /// The requests of a round in a cell.
    pub fn of(design: &Design, cell: Cell, round: u32) -> Result<Self, TraceError> {
        let notes = Notes::default();
        let load = &design.load;
        let mut requests = match &load.source {
            Source::File(file) => {
                let open = || Ok(kept(load, trace::open_noting(file, &notes)?));
                part(open, load.requests, round)?
            }
            Source::Synthetic { description, .. } => {
                let seed = design.blocks.seed + u64::from(round);
                let wanted = load.prompt_max.is_none().then_some(load.requests);
                let drawn = kept(load, description.requests(seed, wanted));
                drawn.take(load.requests as usize).collect::<Result<_, _>>()?
            }
        };
        if requests.is_empty() {
            return Err(TraceError {
                file: design.file.clone(),
                line: None,
                what: "the trace has no request that could be sent".to_owned(),
                remedy: "raise `prompt_tokens_max`, or name another trace".to_owned(),
            });
        }
        let natural = natural_per_s(&requests);
        let fewest = design.engines.as_ref().and_then(|engines| engines.workers.first().copied());
        let fleet = f64::from(cell.workers.max(1)) / f64::from(fewest.unwrap_or(1).max(1));
        let wanted = match load.capacity_per_s {
            Some(capacity) => cell.load * capacity * fleet,
            None => cell.load * natural,
        };
        let per_s = wanted * load.speed;
        let start = requests[0].at;
        for request in &mut requests {
            request.at = (request.at - start).scaled(natural / per_s);
            // The time that people take between turns goes by as fast as the engines live.
            request.delay = request.delay.map(|delay| delay.scaled(1.0 / load.speed));
        }
        let plan = plan(&requests);
        Ok(Self { requests, per_s, plan, notes: notes.lines() })
    }
}

fn kept(load: &Load, requests: Requests) -> Requests {
    Filter { prompt_max: load.prompt_max, ..Filter::default() }.apply(requests)
}

/// The `round`th part of a trace of so many requests; a part that the end would cut short begins at
/// the start again.
fn part(
    open: impl Fn() -> Result<Requests, TraceError>,
    len: u64,
    round: u32,
) -> Result<Vec<TraceRequest>, TraceError> {
    let len = len as usize;
    let skipped = len.saturating_mul(round as usize);
    let found: Vec<TraceRequest> = open()?.skip(skipped).take(len).collect::<Result<_, _>>()?;
    if found.len() == len || round == 0 {
        return Ok(found);
    }
    let total = open()?.try_fold(0_usize, |count, request| request.map(|_| count + 1))?;
    // A trace shorter than a block has only itself.
    let again = (round as usize).checked_rem(total / len).unwrap_or(0);
    open()?.skip(again * len).take(len).collect()
}

/// Requests a second of these on their own clock; 1 where they all come at once.
fn natural_per_s(requests: &[TraceRequest]) -> f64 {
    let span = match (requests.first(), requests.last()) {
        (Some(first), Some(last)) => (last.at - first.at).as_secs_f64(),
        _ => 0.0,
    };
    if span > 0.0 { requests.len() as f64 / span } else { 1.0 }
}

/// The hash of requests and moments.
fn plan(requests: &[TraceRequest]) -> String {
    let mut lines = Vec::new();
    for request in requests {
        // Writing into memory can't fail.
        let _ = write_request(&mut lines, request);
        lines.extend_from_slice(&request.at.0.to_le_bytes());
    }
    digest::of_bytes(&lines)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Block;
    use crate::live::Design;
    use crate::live::design::Cell;

    fn design(load: &str) -> Design {
        let text = format!(
            "[load]\nsynth = \"evidence\"\nmodel = \"m\"\nrequests = 50\n{load}\n\
             [engines]\nurls = [\"http://a\", \"http://b\", \"http://c\", \"http://d\"]\n\
             workers = [2, 4]\n[[arm]]\nname = \"a\"\nurl = \"http://a\"\n"
        );
        Design::parse(Path::new("drill.toml"), &text).unwrap()
    }

    const CELL: Cell = Cell { workers: 2, load: 1.0 };

    #[test]
    fn a_round_is_the_same_whenever_it_is_cut_and_unlike_the_next() {
        let design = design("");
        let block = |round| Block::of(&design, CELL, round).unwrap();
        assert_eq!(block(1), block(1));
        assert_ne!(block(0).plan, block(1).plan);
        assert_eq!(block(0).requests.len(), 50);
    }

    #[test]
    fn a_load_is_a_multiple_of_the_capacity_of_as_many_workers() {
        let design = design("capacity_per_s = 3\nspeed = 10");
        let per_s = |workers, load| Block::of(&design, Cell { workers, load }, 0).unwrap().per_s;
        assert!((per_s(2, 1.5) - 45.0).abs() < 1e-9);
        assert!((per_s(4, 1.5) - 90.0).abs() < 1e-9);
        let block = Block::of(&design, Cell { workers: 2, load: 1.5 }, 0).unwrap();
        let last = block.requests.last().unwrap().at.as_secs_f64();
        assert!((last - 50.0 / 45.0).abs() < 1e-3, "{last}");
    }

    #[test]
    fn without_a_capacity_a_load_is_a_multiple_of_the_traces_own_rate() {
        let (one, two) = (design(""), design("speed = 2"));
        let [one, two] = [one, two].map(|design| Block::of(&design, CELL, 0).unwrap());
        assert!((two.per_s / one.per_s - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_file_is_read_part_by_part_and_then_from_its_start() {
        let rows: Vec<u64> = (0..10).collect();
        let requests = || {
            let description = crate::trace::synth::Description::find("evidence").unwrap();
            Ok(description.requests(1, Some(rows.len() as u64)))
        };
        let all = super::part(requests, 10, 0).unwrap();
        assert_eq!(super::part(requests, 4, 1).unwrap(), all[4..8]);
        assert_eq!(super::part(requests, 4, 2).unwrap(), all[0..4]);
        assert_eq!(super::part(requests, 4, 3).unwrap(), all[4..8]);
        assert_eq!(super::part(requests, 40, 3).unwrap(), all);
    }
}
