//! Says in sentences what a comparison came to, survivorship first.

use super::comparison::{ArmFigures, Buckets, Comparison, Contrast, Difference, Estimate};
use super::contrast::Side;
use super::group::METRICS;
use crate::drill::notation::{counted, listed, percent};

/// Latency that is better over survivors and not over all that were offered: that of an arm which
/// serves fewer.
pub(super) fn survivorship(base: &Side<'_>, arm: &Side<'_>) -> Vec<String> {
    let (served, base_served) = (&arm.group.buckets.stayed(), &base.group.buckets.stayed());
    if served.share(served.completed) >= base_served.share(base_served.completed) {
        return Vec::new();
    }
    let mut sentences = Vec::new();
    for (nth, (metric, _)) in METRICS.iter().enumerate() {
        let (one, other) = (&base.group.latencies[nth], &arm.group.latencies[nth]);
        let quantiles = [
            ("p50", &one.survivors.p50, &other.survivors.p50, &one.offered.p50, &other.offered.p50),
            ("p90", &one.survivors.p90, &other.survivors.p90, &one.offered.p90, &other.offered.p90),
            ("p99", &one.survivors.p99, &other.survivors.p99, &one.offered.p99, &other.offered.p99),
        ];
        let told: Vec<String> = quantiles
            .into_iter()
            .filter(|(_, one, other, ..)| is_surely_less(other, one))
            .filter(|(.., one, other)| !is_surely_less(other, one))
            // What nobody can tell apart looks no faster to anybody.
            .filter(|(_, one, other, ..)| one.said != other.said)
            .map(|(name, one, other, base_offered, offered)| {
                format!(
                    "{} {name} is {} over the {} it completed, against {} of {}, but over all {} \
                     offered it is {} against {}",
                    metric.title(),
                    other.said,
                    served.completed,
                    one.said,
                    base.label,
                    served.offered,
                    offered.said,
                    base_offered.said,
                )
            })
            .collect();
        if let Some(first) = told.first() {
            sentences.push(format!(
                "Survivorship: {} serves fewer ({}) and looks faster only to those it serves: \
                 {first}.",
                arm.label,
                served.unserved(),
            ));
        }
    }
    sentences
}

/// Whether everything that is known of one figure lies below everything that is known of the other.
fn is_surely_less(one: &Estimate, other: &Estimate) -> bool {
    let most = one.value.or(one.high);
    let least = other.value.or(other.low);
    most.zip(least).is_some_and(|(most, least)| most < least)
}

/// What a difference comes to.
pub(super) fn difference(difference: &Difference, confidence: f64) -> String {
    let Difference { arm, baseline, primary, secondary, .. } = difference;
    let pairs = if difference.is_paired {
        format!("{} of blocks of the same plan", counted(difference.blocks.0, "pair"))
    } else {
        format!(
            "{} and {} blocks that are not paired, since their plans are not known to be the same",
            difference.blocks.0, difference.blocks.1
        )
    };
    let first = match (primary.differs, primary.is_better) {
        (true, Some(true)) => format!("{arm} serves more well than {baseline}: {}", told(primary)),
        (true, _) => format!("{arm} serves fewer well than {baseline}: {}", told(primary)),
        (false, _) if primary.p_value.is_none() => {
            format!("whether {arm} serves more well than {baseline} cannot be told")
        }
        (false, _) => format!(
            "no difference between {arm} and {baseline} in what is served well is shown at {}: {}",
            percent(confidence),
            told(primary)
        ),
    };
    let others: Vec<String> =
        secondary.iter().filter(|contrast| contrast.differs).map(told).collect();
    let others = if others.is_empty() {
        "nothing else is shown to differ".to_owned()
    } else {
        format!("what else differs, tested together: {}", listed(&others))
    };
    let mut sentence = format!("{first}; {others} ({pairs}).");
    if let Some(letter) = sentence.get(..1).filter(|letter| *letter == "n" || *letter == "w") {
        sentence = format!("{}{}", letter.to_uppercase(), &sentence[1..]);
    }
    sentence
}

/// `good 85.7 % against 100 % (−14.3 points)`.
fn told(contrast: &Contrast) -> String {
    format!(
        "{} {} against {} ({})",
        contrast.title, contrast.arm.said, contrast.baseline.said, contrast.difference.said
    )
}

/// What to take home, the most important first.
pub(super) fn sentences(comparison: &Comparison) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(arm) = comparison.arms.last() {
        told.push(format!("{} for {}: {}.", arm.outcome.0.name(), arm.label, arm.reason));
    }
    for difference in &comparison.differences {
        told.extend(difference.survivorship.iter().cloned());
    }
    for difference in &comparison.differences {
        told.push(difference.sentence.clone());
    }
    told.extend(comparison.arms.iter().filter_map(unfair));
    told
}

/// The part of an arm's requests that was refused far more often than the rest.
fn unfair(arm: &ArmFigures) -> Option<String> {
    let whole: &Buckets = &arm.all.buckets;
    let all = whole.share(whole.refused);
    let parts = arm.who.as_ref()?.by.iter();
    let hit = parts.filter(|part| part.buckets.offered * 50 >= whole.offered);
    let hit = hit.max_by(|one, other| one.refused_share.total_cmp(&other.refused_share))?;
    let kind = match hit.kind {
        "prompt_tokens" => "prompts of tokens",
        kind => kind,
    };
    (all > 0.0 && hit.refused_share >= 1.5 * all).then(|| {
        format!(
            "{} refused {} of {kind} {}, against {} of all.",
            arm.label,
            percent(hit.refused_share),
            hit.name,
            percent(all)
        )
    })
}

/// What a reader must keep in mind.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    for arm in &comparison.arms {
        let label = &arm.label;
        for run in &arm.runs {
            if run.stopped > 0 {
                notes.push(format!(
                    "{label}: {} was stopped before its plan was done: of {} requests {} were not \
                     sent or not over by then, and count nowhere.",
                    run.from,
                    run.offered + run.stopped,
                    run.stopped
                ));
            }
            for reason in &run.invalid {
                notes.push(format!(
                    "{label}: {} is INVALID and counts nowhere: {reason}.",
                    run.from
                ));
            }
        }
        if arm.runs.iter().any(|run| run.is_closed_loop) {
            notes.push(format!(
                "{label}: arrivals waited for answers (closed loop), which hides queueing: load \
                 falls when the target slows, so that its latency tells less than users would \
                 meet."
            ));
        }
        if arm.all.buckets.left > 0 {
            notes.push(format!(
                "{label}: the clients of {} requests left as planned after the first token: they \
                 count in the time to first token, and in no share of what is completed or good.",
                arm.all.buckets.left
            ));
        }
        if arm.blocks.is_cut {
            notes.push(format!(
                "{label}: one run, cut into {} blocks by its schedule; intervals say nothing of \
                 the spread between runs.",
                arm.blocks.count
            ));
        } else if (1..5).contains(&arm.blocks.count) {
            notes.push(format!(
                "{label}: {} little of the spread between runs.",
                if arm.blocks.count == 1 {
                    "1 block, which shows".to_owned()
                } else {
                    format!("{} blocks, which show", arm.blocks.count)
                }
            ));
        }
        if arm.blocks.autocorrelation.is_some_and(|r| r > 0.3) {
            notes.push(format!(
                "{label}: neighbouring blocks lean the same way, so intervals are widened; a \
                 longer run would tell more."
            ));
        }
        if arm.is_figures_only {
            notes.push(format!(
                "{label}: only summaries are known, so latency over all offered is given as \
                 bounds, and untested."
            ));
        }
    }
    notes
}
