use super::Description;
use crate::trace::TraceRequest;

fn evidence(seed: u64, limit: u64) -> Vec<TraceRequest> {
    let description = Description::named("evidence").unwrap();
    description.requests(seed, Some(limit)).map(Result::unwrap).collect()
}

fn quantiles(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    let nearest = |percent: usize| values[(values.len() * percent).div_ceil(100) - 1];
    [1, 5, 10, 25, 50, 75, 90, 95, 99].map(nearest).to_vec()
}

#[test]
fn the_evidence_prints() {
    for (seed, n) in [(0, 100_000), (1, 1000), (2, 1000), (3, 1000), (4, 1000)] {
        let r = evidence(seed, n);
        let prompts: Vec<u64> = r.iter().map(|r| r.prompt.0).collect();
        let outputs: Vec<u64> = r.iter().map(|r| r.output.0).collect();
        let mean = |v: &[u64]| v.iter().sum::<u64>() as f64 / v.len() as f64;
        let mut ids: Vec<u64> = r.iter().flat_map(|r| r.ids.to_vec()).collect();
        let total = ids.len();
        ids.sort_unstable();
        ids.dedup();
        println!(
            "{seed} {:?} {:.0} {:?} {:.0} ids {} of {total} last {}",
            quantiles(prompts.clone()),
            mean(&prompts),
            quantiles(outputs.clone()),
            mean(&outputs),
            ids.len(),
            r.last().unwrap().at
        );
    }
}
