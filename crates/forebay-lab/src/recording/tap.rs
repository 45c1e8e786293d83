//! Listens to a simulated run, and records every core of it.

use std::path::{Path, PathBuf};

use forebay_core::{Input, Moment, Output, PoolId, Settings};
use forebay_service::Service;

use super::{RECORDING_BYTES_MAX, Recorder, RecordingFault, Start};
use crate::simulate::Tap;
use crate::whole_file::{WholeFile, is_stream};

/// Records a run: the main pool's core to the file that was named, that of the n-th other pool to a
/// file of the same name with `.pool-n` behind it, since a recording is of one core.
#[derive(Debug)]
pub struct RecordingTap {
    file: PathBuf,
    classes: Vec<String>,
    tenants: Vec<String>,
    recorders: Vec<Recorder>,
    failed: Option<RecordingFault>,
}

impl RecordingTap {
    /// Makes sure that the file can be written, before the run begins.
    ///
    /// Tenants that only the trace names have a number in the recording, and no name.
    pub fn create(file: &Path, service: &Service) -> Result<Self, RecordingFault> {
        // The recorder makes its own, once the run begins.
        WholeFile::check(file)?;
        if is_stream(file) && !service.pools.is_empty() {
            return Err(RecordingFault {
                file: file.to_owned(),
                what: "a device or a pipe takes one recording, and there is one of each pool"
                    .to_owned(),
                remedy: "name a file; the other pools' recordings get names beside it".to_owned(),
            });
        }
        Ok(Self {
            file: file.to_owned(),
            classes: service.classes.iter().map(|class| class.name.clone()).collect(),
            tenants: service.tenants.iter().map(|tenant| tenant.name.clone()).collect(),
            recorders: Vec::new(),
            failed: None,
        })
    }

    /// Gives the files their names. False when one was cut at its bound.
    pub fn finish(self) -> Result<bool, RecordingFault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        let mut whole = true;
        for recorder in self.recorders {
            whole &= recorder.finish()?;
        }
        Ok(whole)
    }

    /// Every file that a recording of this service consists of, that of the main pool first.
    pub fn files(file: &Path, service: &Service) -> Vec<PathBuf> {
        (0..=service.pools.len()).map(|pool| file_of(file, pool)).collect()
    }
}

fn file_of(file: &Path, pool: usize) -> PathBuf {
    if pool == 0 {
        return file.to_owned();
    }
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".pool-{pool}"));
    name.into()
}

impl Tap for RecordingTap {
    fn begins(&mut self, pool: PoolId, settings: &Settings, seed: u64) {
        let start = Start { settings, seed, classes: &self.classes, tenants: &self.tenants };
        match Recorder::create(
            &file_of(&self.file, usize::from(pool.0)),
            &start,
            RECORDING_BYTES_MAX,
        ) {
            Ok(recorder) => self.recorders.push(recorder),
            Err(fault) => self.failed = self.failed.take().or(Some(fault)),
        }
    }
    fn told(&mut self, pool: PoolId, now: Moment, input: &Input) {
        if let Some(recorder) = self.recorders.get_mut(usize::from(pool.0)) {
            recorder.input(now, input);
        }
    }
    fn said(&mut self, pool: PoolId, now: Moment, output: &Output) {
        if let Some(recorder) = self.recorders.get_mut(usize::from(pool.0)) {
            recorder.output(now, output);
        }
    }
}
