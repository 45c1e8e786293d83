//! Records a pool that many threads use at once, and decides the same again from the recording.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Core, Input, Moment, Observation, Outcome, Output, Rng, Settings, Tokens};
use forebay_wire::recording::{Ending, Kind, Reader};

use super::{Recordings, Start};
use crate::clock::Clock;
use crate::fixture;
use crate::pool::{Census, Pool, Verdict};

/// An empty folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-rec-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = entries.collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn recorded(folder: &Folder, bytes_max: u64) -> (Recordings, Arc<Pool>) {
    let clock = Clock::start();
    let mut recordings = Recordings::prepare(&folder.0, bytes_max, 1, &clock).unwrap();
    let start = Start {
        settings: &fixture::settings(),
        seed: 7,
        classes: &["public".to_owned(), "batch".to_owned()],
        tenants: &["city".to_owned()],
    };
    let diary = recordings.begin("main", &start).unwrap();
    (recordings, fixture::pool("main", clock, Some(diary)))
}

/// Decides a recording again. How it ends, and how many decisions were equal.
fn replayed(file: &Path) -> (Ending, usize) {
    let mut reader = Reader::new(File::open(file).unwrap()).unwrap();
    let settings = Settings::from_words(&reader.header().settings).unwrap();
    let mut core = Core::new(settings, reader.header().seed);
    let mut decisions = 0;
    for record in reader.by_ref() {
        let record = record.unwrap();
        match record.kind {
            Kind::Input => {
                core.handle(Moment(record.at), Input::from_words(&record.words).unwrap());
            }
            Kind::Output => {
                let said = core.poll();
                let mut words = Vec::new();
                said.to_words(&mut words);
                assert_eq!(words, record.words, "{said:?}");
                decisions += usize::from(!matches!(said, Output::Sleep(_)));
            }
        }
    }
    (reader.ending().unwrap(), decisions)
}

/// Has a client ask for so many answers, each of which ends in one of the ways that there are.
async fn ask(pool: &Arc<Pool>, seed: u64, requests: u64) {
    let mut rng = Rng::new(seed);
    let name: Arc<str> = Arc::from("a client's name");
    for nth in 0..requests {
        let mut seat = pool.arrive(fixture::arrival(50 + 7 * nth), nth % 3 == 0, &name);
        loop {
            let decision = tokio::time::timeout(Duration::from_secs(20), seat.decision());
            match decision.await.expect("a decision comes").what {
                Verdict::Dispatched(..) => {}
                Verdict::Spilled(..) | Verdict::Refused(_) => break,
            }
            match rng.below(5) {
                // Its client goes away.
                0 => break,
                1 => {
                    seat.try_elsewhere(Outcome::Broke);
                    continue;
                }
                _ => {}
            }
            seat.first_token();
            tokio::time::sleep(Duration::from_millis(rng.below(3))).await;
            seat.progress(64);
            if rng.below(4) > 0 {
                seat.settle(Outcome::Completed { output: Tokens(rng.below(100)) });
            }
            break;
        }
    }
}

#[test]
fn a_pool_that_many_threads_use_replays_to_the_same_decisions() {
    let folder = Folder::new("threads");
    let (recordings, pool) = recorded(&folder, 1 << 30);
    fixture::join(&pool, 8_001);
    let second = fixture::join(&pool, 8_002);
    let runtime = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime without sockets")
    };
    let over = tokio::sync::Notify::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime().block_on(async {
                tokio::select! {
                    () = Arc::clone(&pool).keep_awake() => {}
                    () = over.notified() => {}
                }
            });
        });
        let pool = &pool;
        let ask = |seed| scope.spawn(move || runtime().block_on(ask(pool, seed, 50)));
        let clients: Vec<_> = (0..4).map(ask).collect();
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(10));
            pool.observe(second, Observation::Left);
            pool.observe(second, Observation::Healthy(true));
            fixture::join(pool, 8_002);
        }
        let ended =
            clients.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>();
        over.notify_one();
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(pool.census(), Census::default());
    pool.forget_diary();
    let state = Arc::clone(&recordings.states()[0]);
    assert!(state.goes_on());
    recordings.finish();
    let [file] = &folder.files()[..] else { panic!("one file is expected") };
    assert_eq!(fs::metadata(file).unwrap().len(), state.bytes());
    let (ending, decisions) = replayed(file);
    assert_eq!(ending, Ending::Complete);
    assert!(decisions >= 200, "{decisions}");
}

#[test]
fn a_recording_ends_whole_at_its_bound_and_says_so() {
    let folder = Folder::new("bound");
    let (recordings, pool) = recorded(&folder, 4_000);
    fixture::join(&pool, 8_001);
    let name: Arc<str> = Arc::from("a");
    let state = Arc::clone(&recordings.states()[0]);
    let mut seats = Vec::new();
    while state.goes_on() {
        seats.push(pool.arrive(fixture::arrival(100), false, &name));
        std::thread::yield_now();
    }
    recordings.finish();
    let file = &folder.files()[0];
    assert!(fs::metadata(file).unwrap().len() <= 4_000);
    let (ending, decisions) = replayed(file);
    assert_eq!(ending, Ending::Cut);
    assert!(decisions > 0);
}

#[test]
fn old_recordings_go_first_and_other_files_stay() {
    let folder = Folder::new("old");
    fs::create_dir_all(&folder.0).unwrap();
    let old = ["1000000000000-0-a.rec", "1000000000001-0-a.rec.part", "notes.txt"];
    for name in old {
        fs::write(folder.0.join(name), [0; 3_000]).unwrap();
    }
    let (recordings, pool) = recorded(&folder, 4_000);
    let names: Vec<String> = folder
        .files()
        .iter()
        .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], old[1]);
    assert!(names[1].ends_with("-0-main.rec.part"), "{names:?}");
    assert_eq!(names[2], old[2]);
    pool.forget_diary();
    recordings.finish();
    assert!(folder.files()[1].to_str().unwrap().ends_with("-0-main.rec"));
}

#[test]
fn a_folder_that_can_not_be_written_is_refused_with_a_remedy() {
    let clock = Clock::start();
    let file = std::env::temp_dir().join(format!("forebay-rec-{}-file", std::process::id()));
    fs::write(&file, "").unwrap();
    let error = Recordings::prepare(&file, 1 << 20, 1, &clock).unwrap_err().to_string();
    assert!(error.contains("hint: name a folder that may be written"), "{error}");
    fs::remove_file(&file).unwrap();
    let folder = Folder::new("small");
    let mut recordings = Recordings::prepare(&folder.0, 10, 1, &clock).unwrap();
    let settings = fixture::settings();
    let start = Start { settings: &settings, seed: 7, classes: &[], tenants: &[] };
    let error = recordings.begin("a", &start).err().unwrap().to_string();
    assert!(error.contains("hint: allow the recordings more bytes"), "{error}");
    assert!(folder.files().is_empty(), "no draft is left");
}
