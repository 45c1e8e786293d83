//! Decides a recorded run again, and compares every decision bit by bit.

use std::fmt;
use std::path::Path;

use forebay_core::{Core, Moment, Output};
use forebay_wire::recording::Ending;

use super::opened::{Event, Opened};
use super::{RecordingFault, Seconds};

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayReport {
    /// Inputs that were told again.
    pub inputs: u64,
    /// Decisions that were equal; a sleep is none.
    pub decisions: u64,
    /// The first that was not. Nothing is compared after it, since one decision changes all that
    /// follow.
    pub difference: Option<Box<Difference>>,
    /// The file lost its tail, so that what is equal is not all there was.
    pub is_torn: bool,
    /// What the reader must know of the recording's end.
    pub note: Option<&'static str>,
}

/// Where a replay left the recording's path.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Which record, from 1.
    pub record: u64,
    /// When.
    pub at: Moment,
    /// What was recorded; `None` when the recorded core said nothing more.
    pub recorded: Option<Output>,
    /// What is decided now; `None` when the core has nothing more to say.
    pub decided: Option<Output>,
}

impl ReplayReport {
    /// Whether all decisions were equal.
    pub fn is_equal(&self) -> bool {
        self.difference.is_none()
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.difference {
            None => write!(f, "{} decisions, all equal", self.decisions)?,
            Some(difference) => {
                write!(f, "{} decisions were equal, then {difference}", self.decisions)?;
            }
        }
        if let Some(note) = self.note {
            write!(f, "\nnote: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "record {} at {} differs:", self.record, Seconds::of(self.at))?;
        writeln!(f, "  recorded: {}", Said(self.recorded.as_ref()))?;
        write!(f, "  now:      {}", Said(self.decided.as_ref()))
    }
}

/// An output in words.
struct Said<'a>(Option<&'a Output>);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("nothing"),
            Some(Output::Dispatch(request, worker, why)) => {
                write!(f, "{request} goes to {worker}. {why}")
            }
            Some(Output::Spill(request, pool, why)) => {
                write!(f, "{request} goes to pool {}. {why}", pool.0)
            }
            Some(Output::Refuse(request, refusal)) => {
                write!(f, "{request} is refused: {refusal}")
            }
            Some(Output::Cancel(request, worker)) => {
                write!(f, "{worker} is told to stop {request}")
            }
            Some(Output::Sleep(None)) => f.write_str("sleep until the next input"),
            Some(Output::Sleep(Some((until, alarm)))) => {
                write!(f, "sleep until {}, for the alarm {alarm:?}", Seconds::of(*until))
            }
        }
    }
}

/// Feeds a recording's inputs to a new core, and compares what it says.
pub fn replay(file: &Path) -> Result<ReplayReport, RecordingFault> {
    let mut opened = Opened::open(file)?;
    let mut core = Core::new(opened.settings.clone(), opened.header().seed);
    let mut report = ReplayReport::default();
    let mut awake = false;
    let mut at = Moment::START;
    while let Some((moment, event)) = opened.next()? {
        at = moment;
        let (recorded, decided) = match event {
            Event::Input(input) if !awake => {
                core.handle(at, input);
                report.inputs += 1;
                awake = true;
                continue;
            }
            // The recorded core had done with the input before, and this one has not.
            Event::Input(_) => (None, Some(core.poll())),
            Event::Output(recorded) => (Some(recorded), awake.then(|| core.poll())),
        };
        if !same(recorded.as_ref(), decided.as_ref()) {
            let record = opened.records();
            report.difference = Some(Box::new(Difference { record, at, recorded, decided }));
            return Ok(report);
        }
        awake = !matches!(decided, Some(Output::Sleep(_)));
        report.decisions += u64::from(awake);
    }
    report.is_torn = opened.ending() == Ending::Torn;
    report.note = match opened.ending() {
        Ending::Complete if awake => {
            let (record, decided) = (opened.records() + 1, Some(core.poll()));
            let difference = Difference { record, at, recorded: None, decided };
            report.difference = Some(Box::new(difference));
            None
        }
        Ending::Complete => None,
        Ending::Cut => Some("the recording reached its bound, and the run went on after it"),
        Ending::Torn => Some("the recording ends early: whoever wrote it did not come to the end"),
    };
    Ok(report)
}

/// Whether two outputs are equal in every bit, scores included.
fn same(recorded: Option<&Output>, decided: Option<&Output>) -> bool {
    let words = |output: Option<&Output>| {
        output.map(|output| {
            let mut words = Vec::new();
            output.to_words(&mut words);
            words
        })
    };
    words(recorded) == words(decided)
}
