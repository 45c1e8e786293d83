//! Tests the statistics of arrivals, and what their texts mean.

use forebay_core::{Rng, Span};

use super::{Prefixes, Process, Rate, Shape, Think, retimed, times};
use crate::trace::synth::{Description, Length};

fn drawn(rate: &str, process: &str, run_s: u64, seed: u64) -> Vec<f64> {
    let rate: Rate = rate.parse().unwrap();
    let rate = rate.over(Some(Span::secs(run_s))).unwrap();
    times(rate, process.parse().unwrap(), seed).map(Span::as_secs_f64).collect()
}

fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|two| two[1] - two[0]).collect()
}

fn between(times: &[f64], from: f64, to: f64) -> usize {
    times.iter().filter(|at| (from..to).contains(*at)).count()
}

#[test]
fn a_constant_rate_has_no_variance_at_all() {
    let rate = Rate::constant(8.0).unwrap();
    let at: Vec<Span> = times(rate, Process::Constant, 1).take(100_000).collect();
    assert_eq!(at[0], Span::ZERO);
    assert!(at.windows(2).all(|two| two[1] - two[0] == Span::millis(125)));
    // A rate whose gaps are no whole nanoseconds is rounded each time, and never drifts.
    let at: Vec<Span> =
        times(Rate::constant(3.0).unwrap(), Process::Constant, 1).take(90_001).collect();
    assert_eq!(at[90_000], Span::secs(30_000));
    assert!(at.windows(2).all(|two| (two[1] - two[0]).0.abs_diff(333_333_333) <= 1));
}

#[test]
fn poisson_arrivals_have_their_rate_and_a_variation_of_one() {
    let at = drawn("50", "poisson", 2_000, 3);
    // 100,000 ± 3.2 standard deviations of 316.
    assert!((at.len() as f64 - 100_000.0).abs() < 1_000.0, "{}", at.len());
    let gaps = gaps(&at);
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((square.sqrt() / mean - 1.0).abs() < 0.02);
    // The share of gaps longer than the mean is 1/e.
    let long = gaps.iter().filter(|gap| **gap > mean).count() as f64 / gaps.len() as f64;
    assert!((long - 0.367_9).abs() < 0.006, "{long}");
}

#[test]
fn gamma_arrivals_come_in_bursts_at_the_same_rate() {
    let dispersion = |process: &str| {
        let at = drawn("20", process, 5_000, 7);
        assert!((at.len() as f64 / 100_000.0 - 1.0).abs() < 0.05, "{process}: {}", at.len());
        let counts: Vec<f64> = (0..500)
            .map(|nth| between(&at, f64::from(nth) * 10.0, f64::from(nth + 1) * 10.0) as f64)
            .collect();
        let mean = counts.iter().sum::<f64>() / 500.0;
        counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 500.0 / mean
    };
    // Over windows that are long against the gaps, the index of dispersion is the square of the
    // gaps' coefficient of variation (Cox, Renewal Theory, 1962, ch. 3).
    assert!((dispersion("gamma:2.5") / 6.25 - 1.0).abs() < 0.25);
    assert!((dispersion("poisson") - 1.0).abs() < 0.2);
    assert!(dispersion("gamma:0.2") < 0.1);
}

#[test]
fn a_ramp_brings_the_area_below_it_to_each_half() {
    for process in ["constant", "poisson", "gamma:0.5"] {
        let at = drawn("10..30", process, 1_000, 5);
        // 7,500 and 12,500 are due.
        let halves = (between(&at, 0.0, 500.0), between(&at, 500.0, 1_000.0));
        let near = |seen: usize, due: f64| (seen as f64 - due).abs() < 3.5 * due.sqrt();
        assert!(near(halves.0, 7_500.0) && near(halves.1, 12_500.0), "{process}: {halves:?}");
        assert!(at.is_sorted() && at.iter().all(|at| *at <= 1_000.0));
    }
    // With equal gaps of unit rate the counts are exact, and a falling ramp mirrors a rising one.
    let (up, down) = (drawn("0..10x100", "constant", 1, 1), drawn("10..0x100", "constant", 1, 1));
    assert_eq!((up.len(), between(&up, 0.0, 50.0)), (500, 125));
    assert_eq!((down.len(), between(&down, 0.0, 50.0)), (500, 375));
}

#[test]
fn steps_have_their_rates_and_pauses_are_empty() {
    let at = drawn("2x30,10x60,0x5,4", "constant", 105, 1);
    assert_eq!(between(&at, 0.0, 30.0), 60);
    assert_eq!(between(&at, 30.0, 90.0), 600);
    assert_eq!(between(&at, 90.0, 95.0), 0);
    assert_eq!((between(&at, 95.0, 105.0), at.len()), (40, 700));
    assert!(gaps(&at[60..659]).iter().all(|gap| (gap - 0.1).abs() < 1e-8));
}

#[test]
fn the_same_seed_gives_the_same_moments_and_another_one_others() {
    for process in ["poisson", "gamma:3"] {
        assert_eq!(drawn("1..9", process, 60, 4), drawn("1..9", process, 60, 4));
        assert_ne!(drawn("1..9", process, 60, 4), drawn("1..9", process, 60, 5));
    }
    assert_eq!(drawn("5", "constant", 60, 4), drawn("5", "constant", 60, 5));
    // The first moments of a seed are written down: results name it, and must be repeatable.
    let first: Vec<Span> =
        times(Rate::constant(1.0).unwrap(), Process::Gamma(2.0), 1).take(3).collect();
    assert_eq!(first, [Span(2_716_707), Span(459_807_587), Span(1_148_906_802)]);
}

#[test]
fn a_rate_is_read_as_it_is_written() {
    for text in ["5", "0.25", "1..20", "1..20x60", "2x30,10x60,2x30", "1..20x60,20"] {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
    let steps: Rate = "2x30,10x60".parse().unwrap();
    assert_eq!((steps.lasts(), steps.expected()), (Some(Span::secs(90)), Some(660.0)));
    let ramp: Rate = "1..20".parse().unwrap();
    assert_eq!(ramp.lasts(), None);
    assert_eq!(ramp.over(Some(Span::secs(40))).unwrap().expected(), Some(420.0));
}

#[test]
fn what_is_no_rate_is_refused_with_a_hint() {
    for text in [
        "", "x", "5/s", "-1", "0", "0..0", "inf", "nan", "1e7", "5,6", "1..2..3", "2x0", "2x-1",
        "2x30,",
    ] {
        let error = text.parse::<Rate>().unwrap_err().to_string();
        assert!(error.contains("\nhint: "), "{text}: {error}");
    }
    let ramp: Rate = "1..20".parse().unwrap();
    assert!(ramp.over(None).unwrap_err().to_string().starts_with("the ramp 1..20 has no end\n"));
    let late: Rate = "1x60,5".parse().unwrap();
    assert!(late.clone().over(Some(Span::secs(60))).is_err());
    assert_eq!(late.over(None).unwrap().lasts(), None);
}

#[test]
fn processes_and_times_to_think_are_read_as_they_are_written() {
    for text in ["constant", "poisson", "gamma:2.5"] {
        assert_eq!(text.parse::<Process>().unwrap().to_string(), text);
    }
    for text in ["", "Poisson", "gamma", "gamma:", "gamma:0", "gamma:11", "gamma:nan", "poisson:1"]
    {
        assert!(text.parse::<Process>().is_err(), "{text}");
    }
    for text in ["0", "2.5", "exponential:2"] {
        assert_eq!(text.parse::<Think>().unwrap().to_string(), text);
    }
    for text in ["", "-1", "x", "exponential", "exponential:-1", "normal:3", "nan"] {
        assert!(text.parse::<Think>().is_err(), "{text}");
    }
}

#[test]
fn users_think_for_a_fixed_time_or_with_a_mean() {
    let mut rng = Rng::new(1);
    assert_eq!(Think::Fixed(Span::secs(2)).draw(&mut rng), Span::secs(2));
    let think = Think::Exponential(Span::secs(2));
    let sum: f64 = (0..50_000).map(|_| think.draw(&mut rng).as_secs_f64()).sum();
    assert!((sum / 50_000.0 - 2.0).abs() < 0.03);
}

fn shape(prompt: &str, output: &str, prefixes: Option<(u32, u32)>) -> Shape {
    let length = |text: &str| text.parse::<Length>().unwrap();
    let prefixes = prefixes.map(|(count, tokens)| Prefixes { count, tokens });
    Shape { prompt: length(prompt), output: length(output), prefixes }
}

#[test]
fn lengths_are_drawn_as_asked() {
    let mean = |text: &str| {
        let made = shape(text, "5", None).requests(3).take(10_000);
        made.map(|request| request.prompt.0 as f64).sum::<f64>() / 10_000.0
    };
    assert!((mean("1024") - 1_024.0).abs() < 1e-9);
    assert!((mean("100..300") - 200.0).abs() < 2.0);
    assert!((mean("normal:500,50") - 500.0).abs() < 3.0);
    // A lognormal's mean is median × e^(sigma²/2).
    assert!((mean("lognormal:1000,0.5") / 1_133.1 - 1.0).abs() < 0.03);
    let outputs = shape("1", "2..4", None).requests(3).take(1_000);
    assert!(outputs.map(|request| request.output.0).all(|tokens| (2..=4).contains(&tokens)));
    for wrong in ["", "0", "-5", "9..3", "1e9", "normal:5", "lognormal:0,1", "nan", "zipf:3"] {
        assert!(wrong.parse::<Length>().is_err(), "{wrong}");
    }
}

#[test]
fn shared_prefixes_are_equal_ids_and_the_rest_is_each_prompts_own() {
    let made: Vec<_> = shape("100..900", "5", Some((4, 256))).requests(9).take(2_000).collect();
    let mut own = std::collections::BTreeSet::new();
    let mut uses = [0; 4];
    for request in &made {
        assert!((356..=1_156).contains(&request.prompt.0) && request.id_tokens == 256);
        assert_eq!(request.ids.len() as u64, request.prompt.0.div_ceil(256));
        uses[request.ids[0] as usize] += 1;
        assert!(request.ids[1..].iter().all(|id| *id >= 4 && own.insert(*id)));
    }
    assert!(uses.iter().all(|uses| (400..600).contains(uses)), "{uses:?}");
    let again: Vec<_> = shape("100..900", "5", Some((4, 256))).requests(9).take(2_000).collect();
    assert_eq!(made, again);
    assert!(shape("7", "5", None).requests(1).take(9).all(|request| request.ids.is_empty()));
}

#[test]
fn requests_of_a_description_can_come_at_other_moments() {
    let requests = Description::named("chat").unwrap().requests(1, Some(300));
    let before: Vec<_> = requests.map(Result::unwrap).collect();
    let requests = Box::new(before.clone().into_iter().map(Ok));
    let at = times(Rate::constant(2.0).unwrap(), Process::Constant, 1);
    let after: Vec<_> = retimed(requests, at).map(Result::unwrap).collect();
    assert_eq!(after.len(), 300);
    assert!(after.is_sorted_by_key(|request| request.at));
    let mut first_turns = 0;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.ids, before.delay), (&after.ids, after.delay));
        if after.delay.is_none() {
            assert_eq!(after.at, Span::millis(500 * first_turns));
            first_turns += 1;
        }
    }
    assert!(first_turns < 300, "no turn was delayed: the test is about nothing");
    // There are no more requests with a moment of their own than moments.
    let requests = Box::new(before.into_iter().map(Ok));
    let few = retimed(requests, std::iter::once(Span::ZERO)).map(Result::unwrap);
    assert_eq!(few.filter(|request| request.delay.is_none()).count(), 1);
}
