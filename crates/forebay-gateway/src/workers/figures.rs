//! Keeps what a worker says of itself, each figure with its age, and tells when the process behind
//! it was replaced by another.
//!
//! A figure that is not told is unknown, never 0, and one that was not told for long is unknown
//! again. Ages are by figure: an engine may stop to tell one of them and go on with the others.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_core::{Load, Moment, Span, Tokens};
use forebay_wire::engine_metrics::EngineFigures;

/// Starts of a process that differ by less are the same: some engines round.
const SAME_START_SECS: f64 = 0.5;
/// More restarts than this within [`RESTART_WINDOW`] are none: several processes take turns behind
/// one address, each with counts of its own.
const RESTARTS_MAX: usize = 4;
/// See [`RESTARTS_MAX`]. No engine loads its weights four times a minute.
const RESTART_WINDOW: Span = Span::secs(60);

/// A figure, and when it was told last.
#[derive(Debug, Default)]
struct Signal<T> {
    last: Option<(Moment, T)>,
    /// Its being stale was told already.
    said: bool,
}

impl<T: Copy> Signal<T> {
    fn hear(&mut self, now: Moment, value: Option<T>) {
        if let Some(value) = value {
            (self.last, self.said) = (Some((now, value)), false);
        }
    }

    fn value(&self) -> Option<T> {
        self.last.map(|(_, value)| value)
    }

    fn fresh(&self, now: Moment, stale_max: Span) -> Option<T> {
        self.last.filter(|(at, _)| now.since(*at) <= stale_max).map(|(_, value)| value)
    }

    /// Whether it has turned stale since this was asked last.
    fn turned_stale(&mut self, now: Moment, stale_max: Span) -> bool {
        let stale = self.last.is_some_and(|(at, _)| now.since(at) > stale_max);
        stale && !std::mem::replace(&mut self.said, true)
    }
}

/// What is known of a worker by its own figures.
#[derive(Debug, Default)]
pub(super) struct Known {
    heard: Option<Moment>,
    capacity: Signal<u64>,
    running: Signal<u64>,
    waiting: Signal<u64>,
    preemptions: Signal<u64>,
    prompt_tokens: Signal<u64>,
    generation_tokens: Signal<u64>,
    started: Signal<f64>,
    advanced: Option<Moment>,
    restarts: VecDeque<Moment>,
    distrusted: bool,
}

/// What one reading has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct News {
    /// The process is another one, so its cache is empty and what ran there is lost.
    pub(super) restarted: bool,
    /// Restarts are seen too often to be any, and are not believed from now on.
    pub(super) distrusted: bool,
    /// The KV capacity, where it is new.
    pub(super) capacity: Option<Tokens>,
    /// What the core is told.
    pub(super) load: Option<Load>,
    /// The worker says that nothing waits inside it.
    pub(super) nothing_waits: bool,
}

/// What is shown of a worker's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FiguresView {
    /// Since the last reading.
    pub(crate) age: Option<Span>,
    /// Requests that it runs, by its own word; unknown if that is stale.
    pub(crate) running: Option<u64>,
    /// Requests that wait inside it; unknown if that is stale.
    pub(crate) waiting: Option<u64>,
    /// Preemptions since it started; unknown if that is stale.
    pub(crate) preemptions_total: Option<u64>,
}

impl Known {
    /// Takes in a reading.
    pub(super) fn take(&mut self, now: Moment, figures: &EngineFigures) -> News {
        let replaced = self.is_of_another(figures);
        let (restarted, distrusted) = self.believe(now, replaced);
        if replaced {
            *self = Self {
                advanced: self.advanced,
                restarts: std::mem::take(&mut self.restarts),
                distrusted: self.distrusted,
                ..Self::default()
            };
        }
        let capacity = figures.kv_capacity_tokens.filter(|told| *told > 0);
        let is_new = capacity.is_some() && capacity != self.capacity.value();
        let more = |before: &Signal<u64>, told: Option<u64>| {
            before.value().zip(told).is_some_and(|(before, told)| told > before)
        };
        let advances = more(&self.prompt_tokens, figures.prompt_tokens_total)
            || more(&self.generation_tokens, figures.generation_tokens_total)
            || more(&self.preemptions, figures.preemptions_total);
        if advances {
            self.advanced = Some(now);
        }
        self.heard = Some(now);
        self.capacity.hear(now, capacity);
        self.running.hear(now, figures.running);
        self.waiting.hear(now, figures.waiting);
        self.preemptions.hear(now, figures.preemptions_total);
        self.prompt_tokens.hear(now, figures.prompt_tokens_total);
        self.generation_tokens.hear(now, figures.generation_tokens_total);
        self.started.hear(now, figures.started_at);
        let count = |told: Option<u64>| u32::try_from(told.unwrap_or(0)).unwrap_or(u32::MAX);
        let load = figures.preemptions_total.map(|preemptions_total| Load {
            running: count(figures.running),
            waiting: count(figures.waiting),
            preemptions_total,
        });
        News {
            restarted,
            distrusted,
            capacity: capacity.filter(|_| is_new).map(Tokens),
            load,
            nothing_waits: figures.waiting == Some(0),
        }
    }

    /// When a count of work done was last seen to grow.
    pub(super) fn advanced(&self) -> Option<Moment> {
        self.advanced
    }

    /// Names of the figures that have turned stale since this was asked last. The capacity is left
    /// out: it holds for as long as the process does.
    pub(super) fn turned_stale(&mut self, now: Moment, stale_max: Duration) -> Vec<&'static str> {
        let max = span(stale_max);
        let stale = [
            (self.running.turned_stale(now, max), "requests running"),
            (self.waiting.turned_stale(now, max), "requests waiting"),
            (self.preemptions.turned_stale(now, max), "preemptions"),
            (self.prompt_tokens.turned_stale(now, max), "prompt tokens"),
            (self.generation_tokens.turned_stale(now, max), "generated tokens"),
        ];
        stale.into_iter().filter_map(|(stale, name)| stale.then_some(name)).collect()
    }

    /// What is shown of them.
    pub(super) fn view(&self, now: Moment, stale_max: Duration) -> FiguresView {
        let max = span(stale_max);
        FiguresView {
            age: self.heard.map(|heard| now.since(heard)),
            running: self.running.fresh(now, max),
            waiting: self.waiting.fresh(now, max),
            preemptions_total: self.preemptions.fresh(now, max),
        }
    }

    /// Whether another process tells this: it started at another time, or has counted less.
    fn is_of_another(&self, figures: &EngineFigures) -> bool {
        let starts = self.started.value().zip(figures.started_at);
        let less = |before: &Signal<u64>, told: Option<u64>| {
            before.value().zip(told).is_some_and(|(before, told)| told < before)
        };
        starts.is_some_and(|(before, told)| (told - before).abs() > SAME_START_SECS)
            || less(&self.preemptions, figures.preemptions_total)
            || less(&self.prompt_tokens, figures.prompt_tokens_total)
            || less(&self.generation_tokens, figures.generation_tokens_total)
    }

    /// Whether a restart is believed, and whether it is the first that is not.
    fn believe(&mut self, now: Moment, replaced: bool) -> (bool, bool) {
        while self.restarts.front().is_some_and(|at| now.since(*at) > RESTART_WINDOW) {
            self.restarts.pop_front();
        }
        if !replaced {
            self.distrusted &= !self.restarts.is_empty();
            return (false, false);
        }
        self.restarts.push_back(now);
        if self.restarts.len() <= RESTARTS_MAX && !self.distrusted {
            return (true, false);
        }
        self.restarts.truncate(RESTARTS_MAX + 1);
        (false, !std::mem::replace(&mut self.distrusted, true))
    }
}

/// A duration as the core has it.
pub(super) fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_core::{Moment, Span, Tokens};
    use forebay_wire::engine_metrics::{EngineFigures, read};

    use super::Known;

    fn at(secs: u64) -> Moment {
        Moment::START + Span::secs(secs)
    }

    fn figures(started: f64, prompt: u64) -> EngineFigures {
        EngineFigures {
            started_at: Some(started),
            prompt_tokens_total: Some(prompt),
            waiting: Some(0),
            ..EngineFigures::default()
        }
    }

    #[test]
    fn another_process_is_known_by_its_start_or_by_counts_that_went_back() {
        let mut known = Known::default();
        assert!(!known.take(at(0), &figures(1e9, 100)).restarted, "the first is no restart");
        assert!(!known.take(at(1), &figures(1e9 + 0.1, 100)).restarted);
        assert!(
            known.take(at(20), &figures(1e9 + 30.0, 200)).restarted,
            "it counted on, elsewhere"
        );
        assert!(!known.take(at(21), &figures(1e9 + 30.0, 201)).restarted);
        let unknown_start = EngineFigures { started_at: None, ..figures(0.0, 7) };
        assert!(known.take(at(22), &unknown_start).restarted, "it has counted less");
        assert!(
            !known.take(at(23), &figures(1e9 + 50.0, 8)).restarted,
            "it tells for the first time"
        );
    }

    #[test]
    fn processes_that_take_turns_behind_one_address_are_no_restarts_for_long() {
        let mut known = Known::default();
        let mut restarts = 0;
        let mut distrusts = 0;
        for second in 0..600 {
            let news = known.take(at(second), &figures(1e9 + 100.0 * (second % 2) as f64, 5));
            restarts += u32::from(news.restarted);
            distrusts += u32::from(news.distrusted);
        }
        assert_eq!((restarts, distrusts), (4, 1));
        for second in 600..700 {
            known.take(at(second), &figures(2e9, 5));
        }
        assert!(known.take(at(700), &figures(3e9, 0)).restarted, "calm again, so believed again");
    }

    #[test]
    fn a_figure_that_is_not_told_any_more_turns_stale_alone_and_that_is_said_once() {
        let mut known = Known::default();
        let max = Duration::from_secs(10);
        let both = EngineFigures { running: Some(3), waiting: Some(1), ..Default::default() };
        known.take(at(0), &both);
        for second in 1..30 {
            known.take(at(second), &EngineFigures { waiting: Some(1), ..Default::default() });
            let expected: &[&str] = if second == 11 { &["requests running"] } else { &[] };
            assert_eq!(known.turned_stale(at(second), max), expected, "at {second} s");
        }
        let view = known.view(at(30), max);
        assert_eq!((view.running, view.waiting), (None, Some(1)));
        assert_eq!(view.age, Some(Span::secs(1)));
        known.take(at(30), &both);
        assert_eq!(known.view(at(30), max).running, Some(3));
    }

    #[test]
    fn a_capacity_is_news_once_and_no_figure_is_ever_made_up() {
        let mut known = Known::default();
        let text = b"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"100\"} 1\nx NaN\n";
        let news = known.take(at(0), &read(text));
        assert_eq!(news.capacity, Some(Tokens(1600)));
        assert_eq!((news.load, news.nothing_waits), (None, false));
        assert_eq!(known.take(at(1), &read(text)).capacity, None);
        assert_eq!(known.take(at(2), &read(b"")).capacity, None);
    }

    #[test]
    fn counts_that_grow_are_a_sign_of_life() {
        let mut known = Known::default();
        known.take(at(0), &figures(1.0, 5));
        assert_eq!(known.advanced(), None);
        known.take(at(1), &figures(1.0, 6));
        known.take(at(2), &figures(1.0, 6));
        assert_eq!(known.advanced(), Some(at(1)));
    }
}
