//! Makes a trace of a recording: who came when, how long, and what prompts shared.
//!
//! A recording holds no text, so neither does the trace. It is read twice, since a request's answer
//! is as long as its end says, which comes long after its arrival. What did not complete (it was
//! refused, its client went away, it was handed to another pool) would have had an answer as well:
//! the mean of those of its class stands in. A client that came back with a place that was kept for
//! it is left out: whoever replays the trace has clients that come back by themselves.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_core::{
    Arrival, ClassId, Input, Moment, Outcome, RequestId, Span, Ticket, Tokens, mixed,
};
use hashbrown::HashMap;

use super::jsonl::LENGTH_TOKENS_MAX;
use super::{Notes, Requests, TraceError, TraceRequest};
use crate::recording::{Event, Opened, RecordingFault};

/// The answer of a request when no answer of any length is known.
const OUTPUT: u64 = 1;
const RETURNED: &str = "came back with a place that was kept, and were left out";
const UNFINISHED: &str = "did not complete, and have the mean answer of their class";

/// The requests of a recording, in the order of their arrival.
pub(super) fn requests(file: &Path, notes: &Notes) -> Result<Requests, TraceError> {
    let outputs = Outputs::read(file)?;
    let opened = open(file)?;
    let (block_size, notes) = (opened.settings.block_size, notes.clone());
    let header = opened.header();
    let named = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect();
    let (classes, tenants) = (named(&header.classes), named(&header.tenants));
    let file = file.to_owned();
    let first = None;
    Ok(Box::new(Arrivals { file, opened, outputs, block_size, classes, tenants, first, notes }))
}

fn open(file: &Path) -> Result<Opened, TraceError> {
    Opened::open(file).map_err(fault)
}

fn fault(RecordingFault { file, what, remedy }: RecordingFault) -> TraceError {
    TraceError { file, line: None, what, remedy }
}

/// How long answers were.
#[derive(Default)]
struct Outputs {
    /// Of each request that completed.
    known: HashMap<RequestId, u64, foldhash::fast::FixedState>,
    /// Sum and number of them by class, and of all.
    sums: Vec<(u64, u64)>,
    all: (u64, u64),
}

impl Outputs {
    fn read(file: &Path) -> Result<Self, TraceError> {
        let mut opened = open(file)?;
        let mut outputs = Self::default();
        let mut classes: HashMap<RequestId, ClassId, foldhash::fast::FixedState> =
            HashMap::default();
        while let Some((_, event)) = opened.next().map_err(fault)? {
            match event {
                Event::Input(Input::Arrived(arrival)) => {
                    classes.insert(arrival.request, arrival.class);
                }
                Event::Input(Input::Finished(request, outcome)) => {
                    if let Outcome::Completed { output } = outcome
                        && let Some(class) = classes.remove(&request)
                    {
                        outputs.add(request, class, output.0);
                    }
                }
                _ => {}
            }
        }
        Ok(outputs)
    }

    fn add(&mut self, request: RequestId, class: ClassId, output: u64) {
        let class = usize::from(class.0);
        if self.sums.len() <= class {
            self.sums.resize(class + 1, (0, 0));
        }
        for (sum, number) in [&mut self.sums[class], &mut self.all] {
            *sum = sum.saturating_add(output);
            *number += 1;
        }
        self.known.insert(request, output);
    }

    /// The answer that stands in for one that never came.
    fn mean(&self, class: ClassId) -> u64 {
        let of_class = self.sums.get(usize::from(class.0)).filter(|(_, number)| *number > 0);
        let (sum, number) = *of_class.unwrap_or(&self.all);
        if number == 0 { OUTPUT } else { (sum as f64 / number as f64).round() as u64 }
    }
}

/// Turns arrivals into rows of a trace.
struct Arrivals {
    file: PathBuf,
    opened: Opened,
    outputs: Outputs,
    block_size: u32,
    classes: Vec<Arc<str>>,
    tenants: Vec<Arc<str>>,
    /// When the first came: the trace's start.
    first: Option<Moment>,
    notes: Notes,
}

impl Iterator for Arrivals {
    type Item = Result<TraceRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.opened.next() {
                Err(error) => return Some(Err(fault(error))),
                Ok(None) => return None,
                Ok(Some((_, Event::Input(Input::Reconfigured(settings))))) => {
                    self.block_size = settings.block_size;
                }
                Ok(Some((at, Event::Input(Input::Arrived(arrival))))) => {
                    if arrival.ticket.is_some_and(is_return) {
                        self.notes.add(RETURNED, self.opened.records());
                        continue;
                    }
                    return Some(self.row(at, &arrival));
                }
                Ok(Some(_)) => {}
            }
        }
    }
}

/// Whether the place was kept for a client that had been refused: what spills into a pool has a
/// ticket as well, for its age, and was promised nothing.
fn is_return(ticket: Ticket) -> bool {
    ticket.promised > ticket.first_arrived
}

impl Arrivals {
    fn row(&mut self, at: Moment, arrival: &Arrival) -> Result<TraceRequest, TraceError> {
        let record = self.opened.records();
        let prompt = arrival.prompt.0.max(1);
        if prompt > LENGTH_TOKENS_MAX {
            return Err(TraceError {
                file: self.file.clone(),
                line: None,
                what: format!("record {record} is a prompt of {prompt} tokens"),
                remedy: format!("a trace takes prompts of at most {LENGTH_TOKENS_MAX} tokens"),
            });
        }
        let output = self.outputs.known.get(&arrival.request).copied().unwrap_or_else(|| {
            self.notes.add(UNFINISHED, record);
            self.outputs.mean(arrival.class)
        });
        let at = at.since(*self.first.get_or_insert(at));
        let name = |names: &[Arc<str>], place: usize| {
            names.get(place).cloned().unwrap_or_else(|| Arc::from(place.to_string()))
        };
        Ok(TraceRequest {
            at: Span(at.0),
            prompt: Tokens(prompt),
            output: Tokens(output.clamp(1, LENGTH_TOKENS_MAX)),
            ids: self.ids(arrival, prompt),
            id_tokens: self.block_size,
            session: arrival.session,
            delay: None,
            class: Some(name(&self.classes, usize::from(arrival.class.0))),
            tenant: Some(name(&self.tenants, arrival.tenant.0 as usize)),
        })
    }

    /// The recorded hashes, and ids of the request's own for the blocks that have none.
    fn ids(&self, arrival: &Arrival, prompt: u64) -> Arc<[u64]> {
        if arrival.blocks.is_empty() {
            return Arc::from([]);
        }
        let own = mixed(arrival.request.0);
        let known = arrival.blocks.iter().map(|hash| hash.0);
        let private = (0..).map(|nth: u64| mixed(own ^ mixed(nth)));
        known.chain(private).take(prompt.div_ceil(u64::from(self.block_size)) as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use forebay_core::{
        Arrival, BlockHash, ClassId, HoldOrder, Input, Knowledge, Mode, Moment, Outcome, PoolId,
        RequestId, TenantId, Ticket, Tokens,
    };
    use forebay_service::{Door, Service};

    use crate::engine::Preset;
    use crate::recording::{RECORDING_BYTES_MAX, Recorder, RecordingTap, Start, replay};
    use crate::simulate::{Plan, run_tapped};
    use crate::trace::synth::Description;
    use crate::trace::{Notes, Requests, TraceRequest, open, open_noting, save};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("forebay-{}-trace-of-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn plan(requests: Requests) -> Plan {
        let workers = vec![Preset::resolve("a100-40gb/qwen3-8b").unwrap()];
        Plan::new("evidence".to_owned(), requests, workers, Mode::Hold(HoldOrder::Aged))
    }

    /// Records a simulated run of these requests.
    fn record(file: &Path, requests: Requests) {
        let plan = plan(requests);
        let mut tap = RecordingTap::create(file, &plan.service).unwrap();
        run_tapped(plan, &mut tap).unwrap();
        assert!(tap.finish().unwrap());
    }

    #[test]
    fn a_recorded_run_becomes_a_trace_of_the_same_requests_which_runs_again() {
        let folder = Folder::new("run");
        let evidence = Description::named("evidence").unwrap();
        let asked: Vec<TraceRequest> =
            evidence.requests(5, Some(80)).collect::<Result<_, _>>().unwrap();
        record(&folder.file("run.rec"), Box::new(asked.clone().into_iter().map(Ok)));
        let notes = Notes::default();
        let made: Vec<TraceRequest> =
            open_noting(&folder.file("run.rec"), &notes).unwrap().map(Result::unwrap).collect();
        assert_eq!(notes.lines(), [""; 0]);
        assert_eq!(made.len(), asked.len());
        let start = asked[0].at;
        for (made, asked) in made.iter().zip(&asked) {
            assert_eq!(made.at.0, asked.at.0 - start.0);
            assert_eq!((made.prompt, made.output), (asked.prompt, asked.output));
        }
        // Prompts that shared blocks share as many now, and no others do.
        let size = made[0].id_tokens;
        let shared = |requests: &[TraceRequest]| -> Vec<usize> {
            let hashes: Vec<_> = requests.iter().map(|it| it.block_hashes(size)).collect();
            let equal = |a: &[BlockHash], b: &[BlockHash]| {
                a.iter().zip(b).take_while(|(a, b)| a == b).count()
            };
            hashes.windows(2).map(|pair| equal(&pair[0], &pair[1])).collect()
        };
        assert_eq!(shared(&made), shared(&asked));
        // The trace is one like any other: written, read, run, recorded, decided again.
        let file = folder.file("run.jsonl");
        assert_eq!(save(&file, open(&folder.file("run.rec")).unwrap()).unwrap(), 80);
        record(&folder.file("again.rec"), open(&file).unwrap());
        let report = replay(&folder.file("again.rec")).unwrap();
        assert!(report.is_equal() && report.decisions >= 80, "{report}");
    }

    #[test]
    fn returns_are_left_out_and_what_did_not_complete_has_the_mean_answer() {
        let folder = Folder::new("returns");
        let file = folder.file("run.rec");
        let door = Door {
            mode: Mode::Hold(HoldOrder::Aged),
            knowledge: Knowledge::Own,
            block_size: 16,
            expected_output: None,
        };
        let settings = Service::single().settings(PoolId(0), door);
        let start = Start {
            settings: &settings,
            seed: 7,
            classes: &["public".to_owned()],
            tenants: &["city".to_owned()],
        };
        let mut recorder = Recorder::create(&file, &start, RECORDING_BYTES_MAX).unwrap();
        let arrival = |id, promised: Option<u64>| Arrival {
            request: RequestId(id),
            class: ClassId(0),
            tenant: TenantId(9),
            session: Some(4),
            prompt: Tokens(2 * u64::from(settings.block_size) + 3),
            output_max: None,
            blocks: Arc::from([BlockHash(11)]),
            ticket: promised
                .map(|promised| Ticket { first_arrived: Moment(1), promised: Moment(promised) }),
        };
        let mut tell = |at, input| recorder.input(Moment(at), &input);
        tell(10, Input::Arrived(arrival(1, None)));
        tell(20, Input::Arrived(arrival(2, Some(15))));
        // It spilled into this pool.
        tell(30, Input::Arrived(arrival(3, Some(1))));
        tell(40, Input::Arrived(arrival(4, None)));
        tell(50, Input::Finished(RequestId(1), Outcome::Completed { output: Tokens(30) }));
        tell(60, Input::Finished(RequestId(3), Outcome::Completed { output: Tokens(51) }));
        tell(70, Input::Abandoned(RequestId(4)));
        assert!(recorder.finish().unwrap());
        let notes = Notes::default();
        let made: Vec<TraceRequest> =
            open_noting(&file, &notes).unwrap().map(Result::unwrap).collect();
        let outputs: Vec<u64> = made.iter().map(|it| it.output.0).collect();
        assert_eq!(outputs, [30, 51, 41]);
        assert_eq!(made.iter().map(|it| it.at.0).collect::<Vec<_>>(), [0, 20, 30]);
        assert_eq!(
            (made[0].class.as_deref(), made[0].tenant.as_deref()),
            (Some("public"), Some("9"))
        );
        let notes = notes.lines();
        assert!(notes[0].contains("came back with a place"), "{notes:?}");
        assert!(notes[1].contains("did not complete"), "{notes:?}");
        let [a, b] = [&made[0].ids, &made[1].ids];
        assert_eq!((a.len(), a[0], b[0]), (3, 11, 11));
        assert!(a[1] != b[1] && a[2] != b[2], "what was not hashed is nobody else's");
    }

    #[test]
    fn a_broken_recording_says_what_is_wrong_with_it() {
        let folder = Folder::new("broken");
        let file = folder.file("run.rec");
        std::fs::write(&file, b"FBYRE\r\n\x09").unwrap();
        let error = open(&file).err().unwrap().to_string();
        assert!(error.contains("hint: use the program that wrote it"), "{error}");
    }
}
