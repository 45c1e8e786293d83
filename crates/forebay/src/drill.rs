//! Runs several ways of routing against the same requests and judges them: `forebay drill`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use forebay_lab::drill::criteria::Criteria;
use forebay_lab::drill::progress::Progress;
use forebay_lab::drill::stage::{Source, Stage, thresholds};
use forebay_lab::drill::{self, ARMS, Design, Mode, table};
use forebay_lab::engine::Preset;
use forebay_lab::report::{self, Origin};
use forebay_lab::slo::Held;
use forebay_service::Service;

use crate::live;
use crate::talk::{print, say};

/// Runs several ways of routing over the same requests, and judges each.
///
/// Every figure is over all requests that were offered; one that was never served counts as
/// infinitely late.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The last --arm is under test and decides the exit code:
0 GO, 1 NO-GO, 3 INCONCLUSIVE; 2 is misuse or failure.

Examples: forebay drill
          forebay drill --trace conversation.jsonl --workers 8 --out report
          forebay drill --live drill.toml --out drill")]
pub(crate) struct Args {
    /// Drill live endpoints, as this file says
    #[arg(long, value_name = "FILE", help_heading = "Live")]
    #[arg(conflicts_with_all = [
        "trace", "synth", "scale", "seeds", "workers", "engine", "arms", "classes", "criteria",
    ])]
    live: Option<PathBuf>,
    /// Say what that file means, and stop
    #[arg(long, requires = "live", help_heading = "Live")]
    check: bool,
    /// Who decides what, and which refusals were agreed
    #[arg(long, value_name = "FILE", requires = "live", help_heading = "Live")]
    sign_off: Option<PathBuf>,

    /// Trace to replay, the same for every seed
    #[arg(long, value_name = "FILE", conflicts_with = "synth", help_heading = "Load")]
    trace: Option<PathBuf>,
    /// Synthetic trace, a name or a file [default: evidence]
    #[arg(long, value_name = "NAME", default_value = "evidence", help_heading = "Load")]
    #[arg(hide_default_value = true)]
    synth: String,
    /// Rate in multiples of the trace's
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, help_heading = "Load")]
    scale: f64,
    /// Number of seeds, from 1 on
    #[arg(long, value_name = "COUNT", default_value_t = 3, help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Numbers of workers
    #[arg(long, value_name = "N,N,…", default_value = "2,4,8", help_heading = "Fleet")]
    #[arg(value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    workers: Vec<u32>,
    /// Preset, a name or a file [default: a100-40gb/qwen3-8b]
    #[arg(long, value_name = "PRESET", default_value = "a100-40gb/qwen3-8b")]
    #[arg(hide_default_value = true, help_heading = "Fleet")]
    engine: String,

    /// How a worker is chosen; repeat it [default: six modes]
    #[arg(long = "arm", value_name = "MODE", help_heading = "Policy")]
    arms: Vec<Mode>,
    /// Classes, tenants and pools
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    classes: Option<PathBuf>,
    /// What each arm is held to [default: served, TTFT]
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    criteria: Option<PathBuf>,

    /// Write a report to this folder, and a live drill's runs
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// One JSON object a run, then one with the verdicts
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Holds the drill, prints what came of it, and answers with the verdict on the arm under test.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.live {
        let out = args.out.as_deref().unwrap_or(Path::new(live::OUT));
        let sign_off = args.sign_off.as_deref();
        return live::run(file, sign_off, out, args.check, args.json);
    }
    let stage = stage(args)?;
    let design = design(args, &stage)?;
    design.check(&stage)?;
    let origin = match &args.out {
        Some(folder) => {
            report::check(folder)?;
            Some(origin(args, &design)?)
        }
        None => None,
    };
    let held = {
        let progress = Progress::of(design.cells().len());
        drill::hold(design, &stage, &|| progress.advance())?
    };
    for note in held.notes() {
        say(&format!("note: {}: {note}", held.design.trace));
    }
    if args.json {
        for run in &held.runs {
            print(&format!("{}\n", run.summary))?;
        }
        print(&format!("{}\n", report::verdicts_json(&held)))?;
    } else {
        print(&table::render(&held))?;
    }
    if let (Some(folder), Some(origin)) = (&args.out, &origin) {
        report::write(&held, origin, folder)?;
        say(&format!("report: {}", folder.join("index.html").display()));
    }
    Ok(ExitCode::from(held.exit_code()))
}

fn stage(args: &Args) -> anyhow::Result<Stage> {
    let source = match &args.trace {
        Some(path) => {
            ensure!(
                path != Path::new("-"),
                "a drill reads its trace more than once\nhint: write it to a file first"
            );
            Source::File(path.clone())
        }
        None => Source::synthetic(&args.synth)?,
    };
    let service = match &args.classes {
        Some(file) => Service::load(file, &Preset::faults_of)?,
        None => Service::single(),
    };
    Ok(Stage {
        source,
        engine: Preset::resolve(&args.engine)?,
        service,
        scale: args.scale,
        thresholds: thresholds(&criteria(args)?),
    })
}

fn criteria(args: &Args) -> anyhow::Result<Criteria> {
    Ok(Held::load(args.criteria.as_deref())?.criteria)
}

fn design(args: &Args, stage: &Stage) -> anyhow::Result<Design> {
    let mut workers = args.workers.clone();
    workers.sort_unstable();
    workers.dedup();
    Ok(Design {
        trace: stage.source.name(),
        engine: stage.engine.name.clone(),
        scale: stage.scale,
        published: stage.is_published(),
        workers,
        seeds: (1..=args.seeds).collect(),
        arms: if args.arms.is_empty() { ARMS.to_vec() } else { args.arms.clone() },
        criteria: criteria(args)?.with_agreed(&stage.service),
        // The fleets that differ are only shown in the report.
        sensitivity: args.out.is_some(),
    })
}

/// The command in words, with every default that decides the figures spelled out.
fn origin(args: &Args, design: &Design) -> anyhow::Result<Origin> {
    let mut words = vec!["forebay".to_owned(), "drill".to_owned()];
    let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    match &args.trace {
        Some(path) => option("trace", path.display().to_string()),
        None => option("synth", args.synth.clone()),
    }
    let listed = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    option("workers", listed(&design.workers));
    option("seeds", args.seeds.to_string());
    option("engine", args.engine.clone());
    option("scale", args.scale.to_string());
    for (name, file) in [("classes", &args.classes), ("criteria", &args.criteria)] {
        if let Some(file) = file {
            option(name, file.display().to_string());
        }
    }
    for arm in &design.arms {
        option("arm", arm.to_string());
    }
    option("out", "report".to_owned());
    let engine = Path::new(&args.engine);
    let synth = args.trace.is_none().then_some(Path::new(&args.synth));
    let named = [synth, Some(engine)].into_iter().flatten().filter(|path| path.is_file());
    let given = [&args.trace, &args.classes, &args.criteria].into_iter().flatten();
    let files: Vec<&Path> = given.map(PathBuf::as_path).chain(named).collect();
    Ok(Origin::of(&words, &files)?)
}
