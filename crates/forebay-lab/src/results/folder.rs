//! Writes the folder of a run: rows as they end, then what they sum up to.
//!
//! Everything is written to a folder with a temporary name beside the final one, which takes its
//! place when the run is over: an older run stays until then. A run that is killed leaves the
//! temporary folder with the rows of the requests that had ended.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use super::export::Export;
use super::gather::Gather;
use super::{About, ResultsError, Row, Summary};
use crate::whole_file::followed;

/// The rows, one a line.
pub const ROWS_FILE: &str = "requests.jsonl";
/// What they sum up to. It marks a folder as that of a run.
pub const SUMMARY_FILE: &str = "summary.json";
/// The rows as `AIPerf` writes them.
pub const AIPERF_ROWS_FILE: &str = "profile_export.jsonl";
/// The figures as `AIPerf` writes them.
pub const AIPERF_SUMMARY_FILE: &str = "profile_export_aiperf.json";
/// Everything that the folder of a run may hold. With anything else in it, it is not replaced.
const FILES: [&str; 4] = [ROWS_FILE, SUMMARY_FILE, AIPERF_ROWS_FILE, AIPERF_SUMMARY_FILE];

/// The most rows that a run may have, and that are read of one: 50 M take a few gigabytes of
/// memory and a day at 600 a second.
pub const ROWS_MAX: u64 = 50_000_000;
/// Bytes that are gathered before they are handed to the system.
const BUFFER_BYTES: usize = 1 << 18;
/// For how long rows are kept back at most while others come: what a run loses that is killed.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// How the folder of a run is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderOptions {
    /// When the run began, in milliseconds since 1970: `AIPerf` counts from there.
    pub started_unix_ms: u64,
    /// Whether the files that `AIPerf` reads are written as well.
    pub aiperf: bool,
}

/// The folder of a run that is under way. Dropped before [`RunFolder::finish`] it leaves its
/// temporary folder behind if there is any row in it, since rows are what a run costs.
pub struct RunFolder {
    folder: PathBuf,
    part: PathBuf,
    rows: BufWriter<File>,
    gather: Gather,
    has_rows: bool,
    /// When rows were last handed to the system.
    flushed: Instant,
    aiperf: Option<(Export, BufWriter<File>, u64)>,
    is_finished: bool,
}

impl RunFolder {
    /// Begins the folder. What is there under its name must be nothing, or an older run, which
    /// stays until this one is finished.
    pub fn create(named: &Path, options: FolderOptions) -> Result<Self, ResultsError> {
        let folder = followed(named).map_err(ResultsError::unwritable(named))?;
        refuse_foreign(&folder)?;
        let part = beside(&folder, "part")?;
        fs::create_dir_all(&part).map_err(ResultsError::unwritable(&part))?;
        let rows = create(&part.join(ROWS_FILE))?;
        let aiperf = options.aiperf.then(|| {
            let rows = create(&part.join(AIPERF_ROWS_FILE))?;
            Ok((Export::default(), rows, options.started_unix_ms))
        });
        let (aiperf, gather) = (aiperf.transpose()?, Gather::default());
        let (has_rows, is_finished, flushed) = (false, false, Instant::now());
        Ok(Self { folder, part, rows, gather, has_rows, flushed, aiperf, is_finished })
    }

    /// Finds out whether a run could be written there, and leaves nothing behind.
    pub fn check(named: &Path) -> Result<(), ResultsError> {
        let above = |at: &Path| at.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
        let folder = followed(named).map_err(ResultsError::unwritable(named))?;
        let is_new = |at: &PathBuf| !at.as_os_str().is_empty() && !at.exists();
        let made: Vec<PathBuf> = above(&folder).into_iter().take_while(is_new).collect();
        let options = FolderOptions { started_unix_ms: 0, aiperf: false };
        let tried = Self::create(named, options).map(drop);
        for folder in made {
            // The folders above come with the run, or not at all; one that was not made has
            // nothing to remove.
            let _ = fs::remove_dir(folder);
        }
        tried
    }

    /// Writes one row, and counts it.
    pub fn push(&mut self, row: &Row) -> Result<(), ResultsError> {
        if self.gather.rows() == ROWS_MAX {
            let what = format!("a run has at most {ROWS_MAX} requests");
            let remedy = "offer fewer requests, or split the run";
            return Err(ResultsError::of(&self.folder.join(ROWS_FILE), what, remedy));
        }
        self.has_rows = true;
        self.gather.add(row);
        let written = serde_json::to_writer(&mut self.rows, row).map_err(io::Error::from);
        let written = written.and_then(|()| self.rows.write_all(b"\n"));
        let is_due = self.flushed.elapsed() >= FLUSH_EVERY;
        let written = written.and_then(|()| if is_due { self.rows.flush() } else { Ok(()) });
        if is_due {
            self.flushed = Instant::now();
        }
        written.map_err(ResultsError::unwritable(&self.part.join(ROWS_FILE)))?;
        if let Some((export, rows, started)) = &mut self.aiperf {
            let written = export.push(row, *started, rows);
            written.map_err(ResultsError::unwritable(&self.part.join(AIPERF_ROWS_FILE)))?;
        }
        Ok(())
    }

    /// Sums the rows up, and gives the folder its name.
    pub fn finish(mut self, about: &About) -> Result<Summary, ResultsError> {
        let rows = self.part.join(ROWS_FILE);
        self.rows.flush().map_err(ResultsError::unwritable(&rows))?;
        let summary = std::mem::take(&mut self.gather).into_summary(&sound(about));
        if let Some((export, mut rows, _)) = self.aiperf.take() {
            let path = self.part.join(AIPERF_ROWS_FILE);
            rows.flush().map_err(ResultsError::unwritable(&path))?;
            let path = self.part.join(AIPERF_SUMMARY_FILE);
            let text = export.summary(&summary.about).to_string() + "\n";
            fs::write(&path, text).map_err(ResultsError::unwritable(&path))?;
        }
        let path = self.part.join(SUMMARY_FILE);
        fs::write(&path, summary.json()).map_err(ResultsError::unwritable(&path))?;
        // What was there may have changed since the run began.
        refuse_foreign(&self.folder)?;
        replace(&self.part, &self.folder)?;
        self.is_finished = true;
        Ok(summary)
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.is_finished && !self.has_rows {
            // What can't be removed is left behind under a name that says what it is.
            let _ = fs::remove_dir_all(&self.part);
        }
    }
}

fn create(file: &Path) -> Result<BufWriter<File>, ResultsError> {
    let out = File::create(file).map_err(ResultsError::unwritable(file))?;
    Ok(BufWriter::with_capacity(BUFFER_BYTES, out))
}

/// Puts a whole folder in the place of an older one.
fn replace(part: &Path, folder: &Path) -> Result<(), ResultsError> {
    let older = beside(folder, "replaced")?;
    if folder.exists() {
        fs::rename(folder, &older).map_err(ResultsError::unwritable(folder))?;
    }
    fs::rename(part, folder).map_err(|said| {
        // Puts the older run back; if that fails too, the first failure is the one to tell.
        let _ = fs::rename(&older, folder);
        ResultsError::unwritable(folder)(said)
    })?;
    // What can't be removed is left behind under a name that says what it is.
    let _ = fs::remove_dir_all(older);
    Ok(())
}

/// A name in the same parent, so that a rename is all that is needed in the end.
fn beside(folder: &Path, what: &str) -> Result<PathBuf, ResultsError> {
    let Some(name) = folder.file_name() else {
        let remedy = "name a new folder, such as results/hold";
        return Err(ResultsError::of(folder, "is no name for a folder", remedy));
    };
    let mut name = OsString::from(name);
    name.push(format!(".{}.{what}", process::id()));
    Ok(folder.with_file_name(name))
}

/// Refuses to replace what is not an older run, and a run in whose folder somebody put more.
fn refuse_foreign(folder: &Path) -> Result<(), ResultsError> {
    let foreign = |what: &str| {
        let remedy = "name a new folder; only an older run with nothing beside it is ever replaced";
        Err(ResultsError::of(folder, what, remedy))
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return foreign("exists and is no folder");
        }
        Err(said) => return Err(ResultsError::unwritable(folder)(said)),
    };
    let mut is_empty = true;
    for entry in entries {
        let name = entry.map_err(ResultsError::unwritable(folder))?.file_name();
        let is_known = FILES.iter().any(|known| name == *known);
        if !is_known {
            let name = name.to_string_lossy();
            return foreign(&format!("exists and holds {name}, which no run writes"));
        }
        is_empty = false;
    }
    if is_empty || is_run(folder) { Ok(()) } else { foreign("exists and is no run of forebay") }
}

/// Whether a folder is that of one of our runs, of whatever version.
fn is_run(folder: &Path) -> bool {
    /// The part of a summary that says what it is.
    #[derive(serde::Deserialize)]
    struct Marker {
        schema: String,
    }
    fs::read(folder.join(SUMMARY_FILE))
        .ok()
        .and_then(|text| serde_json::from_slice::<Marker>(&text).ok())
        .is_some_and(|marker| marker.schema.starts_with("forebay.results/"))
}

/// The same with nothing in it that JSON can't hold: a figure that is no number says nothing.
fn sound(about: &About) -> About {
    let mut about = about.clone();
    let is_sound = about.generator.as_ref().is_none_or(|it| {
        let optional = [it.connect_ms_p99, it.cpu_pressure, it.steal, it.cpu_s];
        let lags = [it.lag_ms_p50, it.lag_ms_p99, it.lag_ms_max];
        lags.into_iter().chain(optional.into_iter().flatten()).all(f64::is_finite)
    });
    if !is_sound {
        about.generator = None;
        about.notes.push("what the generator saw of itself held a figure that is no number".into());
    }
    about
}
