//! Carries live traffic: `forebay serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use forebay_gateway::config::{Config, Mode};

use crate::log;
use crate::talk::{print, say};

/// Takes requests of any OpenAI client, and holds each until a worker has room for it.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("fleet").args(["config", "worker"]).required(true)))]
#[command(after_help = "\
Without a file it serves this machine only, and needs no keys.

Examples: forebay serve --worker http://10.0.0.7:8000 --worker http://10.0.0.8:8000
          forebay serve --config forebay.toml --check")]
pub(crate) struct Args {
    /// What to serve, and for whom
    ///
    /// Its keys are in docs/reference/config.md. It is watched: most of it can change while the
    /// gateway runs.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["listen", "mode"])]
    config: Option<PathBuf>,
    /// Read the configuration, say what it means, and stop
    ///
    /// Exits with 0 if it has no fault, else with 2. Certificates have to fit their keys, and
    /// recordings and the access log have to be writable; it neither listens nor asks a worker.
    #[arg(long)]
    check: bool,
    /// Record what is decided
    ///
    /// For `forebay replay` and `forebay explain`, in place of the file's `[record]`.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// A worker; repeat it for more
    #[arg(long, value_name = "URL", help_heading = "Without a file")]
    worker: Vec<String>,
    /// Where to listen, on this machine only
    #[arg(long, value_name = "ADDRESS", help_heading = "Without a file")]
    #[arg(default_value = "127.0.0.1:8080")]
    listen: String,
    /// How a worker is chosen
    ///
    /// One of `round-robin`, `random`, `power-of-two`, `least-loaded`, `least-work`, `session`,
    /// `kv:dynamo-1.2`, `kv:dynamo-1.2-wspt`, `kv:dynamo-1.6`, `hold`, `hold:first-come`.
    #[arg(long, value_name = "MODE", default_value = "hold", help_heading = "Without a file")]
    mode: Mode,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.config()?;
    if args.check {
        forebay_gateway::check(&config)?;
        print(&config.shown())?;
        config.cautions().iter().for_each(|caution| say(&format!("note: {caution}")));
        return Ok(ExitCode::SUCCESS);
    }
    log::begin();
    let told = |addr| say(&format!("listening on {addr}"));
    forebay_gateway::serve(config, args.config.clone(), told)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// What the file or the flags mean.
    fn config(&self) -> anyhow::Result<Config> {
        let mut config = match &self.config {
            Some(file) => Config::load(file)?,
            None => Config::from_flags(Some(&self.listen), self.mode, &self.worker)?,
        };
        if let Some(dir) = &self.record {
            config.record_to(dir.clone());
        }
        Ok(config)
    }
}
