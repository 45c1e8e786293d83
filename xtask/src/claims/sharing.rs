//! Holds classes to their policies and tenants to their shares.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;
use forebay_core::Rng;

use super::bar::{Bar, Unit, ratio};
use super::compare::{each, figures};
use super::sheet::{Arm, Samples, Sheet, split};

/// A queue that nobody is turned away from, and one whose door shuts after two seconds of waiting.
const SERVICE: &str = "\
[[class]]
name = \"public\"
overload = \"queue\"
share = 4
traffic = 1

[[class]]
name = \"research\"
overload = \"shed\"
wait_ms_max = 2000
share = 1
traffic = 1
";

/// A class that queues and one that sheds, at 1.6 × capacity.
pub(super) fn classes(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (file, path) = sheet.lab.scratch("two-classes.toml")?;
    fs::write(&path, SERVICE).with_context(|| format!("cannot write {file}"))?;
    let mut run = |retry: &str| {
        let flags = format!("--scale 1.34 --classes {file} --retry {retry}");
        sheet.everywhere(&Arm { workers: 2, mode: "hold", flags: &flags })
    };
    let (gone, back) = (run("none")?, run("retry-after")?);
    once(sheet, &gone)?;
    let kept = each(&back, |run| {
        Ok(run.figure("classes.research.promises.kept")?
            / run.figure("classes.research.promises.followed")?)
    })?;
    let cut = each(&back, |run| run.figure("classes.research.promises.cut_by_cap"))?;
    let cut: f64 = cut.iter().map(|(_, cut)| cut).sum();
    let what = format!("research, served of those that came back when told, {cut} cut ones apart");
    sheet.bar(what, Unit::Share, &kept, Bar::AtLeast(0.8));
    Ok(())
}

/// Clients that go away when they are refused.
fn once(sheet: &mut Sheet<'_>, samples: &Samples) -> anyhow::Result<()> {
    let completed = each(samples, |run| {
        Ok(run.figure("classes.public.completed")? / run.figure("classes.public.offered")?)
    })?;
    sheet.bar("public, completed", Unit::Share, &completed, Bar::AtLeast(1.0));
    let late = figures(samples, "classes.public.ttft_ms.p90")?;
    sheet.bar("public, TTFT p90", Unit::Millis, &late, Bar::AtMost(60_000.0));
    let refused = figures(samples, "classes.research.refused")?;
    sheet.bar("research, refused", Unit::Count, &refused, Bar::AtLeast(1.0));
    let others = each(samples, |run| {
        let reasons = run.reasons("classes.research.refused_by")?;
        let others = reasons.iter().filter(|(reason, _)| reason != "shed");
        Ok(others.map(|(_, count)| *count).sum::<u64>() as f64)
    })?;
    let what = "research, refused later than at arrival, for another reason than shed";
    sheet.bar(what, Unit::Count, &others, Bar::AtMost(0.0));
    let untold = each(samples, |run| {
        Ok(run.figure("classes.research.refused")?
            - run.figure("classes.research.promises.given")?)
    })?;
    let what = "research, refusals without a Retry-After";
    sheet.bar(what, Unit::Count, &untold, Bar::Between(0.0, 0.0));
    Ok(())
}

/// One request in so many is the light tenant's: 0.3 × capacity against 3 ×.
const LIGHT_ONE_IN: u64 = 11;
/// Requests of both tenants: enough that the light one's 99th percentile is one of hundreds.
const REQUESTS: u32 = 6000;
/// The seed of the trace and of the tenants.
const SEED: u64 = 5;

/// A tenant beside one that floods, against the same one alone with half the fleet.
pub(super) fn tenants(sheet: &mut Sheet<'_>) -> anyhow::Result<()> {
    let (plain, _) = sheet.lab.scratch("plain.jsonl")?;
    let (both, both_path) = sheet.lab.scratch("light-and-flood.jsonl")?;
    let (light, _) = sheet.lab.scratch("light.jsonl")?;
    make(
        sheet,
        &format!("trace synth evidence --requests {REQUESTS} --seed {SEED} --out {plain}"),
    )?;
    name_tenants(sheet, &plain, &both_path)?;
    sheet.note(format!(
        "# {both} is {plain} with a tenant: light for one in {LIGHT_ONE_IN}, or flood"
    ));
    make(sheet, &format!("trace filter {both} --tenant light --out {light}"))?;
    for workers in [2, 4, 8] {
        // The slice is about 1.19 × the capacity of two workers.
        let scale = 3.3 / 1.19 * f64::from(workers) / 2.0;
        let flooded = simulated(sheet, &both, workers, scale)?;
        let alone = simulated(sheet, &light, workers / 2, scale)?;
        let what = format!(
            "N={workers}, the light tenant's TTFT p99 over that alone on {} of them",
            workers / 2
        );
        sheet.single(what, Unit::Times, ratio(flooded, alone), Bar::AtMost(1.5));
    }
    Ok(())
}

fn make(sheet: &mut Sheet<'_>, words: &str) -> anyhow::Result<()> {
    sheet.note(format!("forebay {words}"));
    sheet.lab.fresh(&split(words)).map(|_| ())
}

/// Gives every request of a trace a tenant.
fn name_tenants(sheet: &mut Sheet<'_>, plain: &str, path: &Path) -> anyhow::Result<()> {
    let text = sheet.lab.read(plain)?;
    let mut rng = Rng::new(SEED).fork("tenants");
    let mut named = String::new();
    for line in text.lines() {
        let open = line.strip_suffix('}').with_context(|| format!("{plain}: no object: {line}"))?;
        let tenant = if rng.below(LIGHT_ONE_IN) == 0 { "light" } else { "flood" };
        writeln!(named, "{open}, \"tenant\": \"{tenant}\"}}")?;
    }
    fs::write(path, named).with_context(|| format!("cannot write {}", path.display()))
}

/// The light tenant's TTFT p99.
fn simulated(sheet: &mut Sheet<'_>, trace: &str, workers: u32, scale: f64) -> anyhow::Result<f64> {
    let words = format!(
        "simulate --trace {trace} --workers {workers} --mode hold --scale {scale:.4} --json"
    );
    sheet.one(&words)?.figure("tenants.light.ttft_ms.p99")
}
