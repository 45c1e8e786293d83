//! Holds live drills against modelled engines on loopback.
#![expect(clippy::unwrap_used, reason = "a test that can't go on may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use forebay_lab::engine::Preset;
use forebay_lab::engine_server::{EngineServer, Options};
use forebay_lab::live::{Design, Drill, Event, hold, table};

/// An empty folder of this test's own.
fn scratch(name: &str) -> PathBuf {
    let root = std::env::temp_dir().join(format!("forebay-live-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

const LOAD: &str = "[load]\nsynth = \"evidence\"\nmodel = \"qwen3-8b\"\n\
                    endpoint = \"completions\"\nrequests = 30\nspeed = 200\nwarmup = 2\n\
                    [blocks]\nleast = 2\nmost = 2\n";

fn design(folder: &Path, text: &str) -> Design {
    let file = folder.join("drill.toml");
    fs::write(&file, text).unwrap();
    Design::load(&file).unwrap()
}

async fn engines(workers: u16) -> (EngineServer, Vec<String>) {
    let preset = Preset::resolve("a100-40gb/qwen3-8b").unwrap();
    let options = Options { workers, port: 0, speed: 200.0, ..Options::new(preset) };
    let server = EngineServer::start(options).await.unwrap();
    let urls = server.addrs().iter().map(|addr| format!("http://{addr}")).collect();
    (server, urls)
}

#[tokio::test]
async fn arms_take_turns_forward_and_backward_and_leave_their_runs() {
    let (server, urls) = engines(1).await;
    let root = scratch("turns");
    let arm = |name: &str| {
        let url = &urls[0];
        format!(
            "[[arm]]\nname = \"{name}\"\nurl = \"{url}\"\nmetrics = \"/metrics\"\n\
             refusals = \"vllm:no_such_counter\"\n"
        )
    };
    let text = format!(
        "{LOAD}[engines]\nurls = [\"{}\"]\nreset = \"POST /reset_prefix_cache\"\n{}{}",
        urls[0],
        arm("one"),
        arm("two")
    );
    let design = design(&root, &text);
    let out = root.join("out");
    let mut order = Vec::new();
    let tell = |event: Event<'_>| {
        if let Event::Begins { round, arm, .. } = event {
            order.push(format!("{arm} {round}"));
        }
    };
    let drill: Drill = hold(design, &out, tell, std::future::pending()).await.unwrap();
    assert_eq!(order, ["one 0", "two 0", "two 1", "one 1"]);
    let cell = &drill.cells[0];
    assert_eq!(cell.rounds, 2);
    // Both arms of a round had the same requests, and the rounds others.
    let plan = |arm: usize, round: usize| cell.blocks[arm][round].run.about.plan.clone().unwrap();
    assert_eq!(plan(0, 0), plan(1, 0));
    assert_ne!(plan(0, 0), plan(0, 1));
    let seen = &cell.blocks[1][1].seen;
    assert_eq!((seen.refused_by_clients, seen.refused_by_server), (0, Some(0)));
    assert!(!seen.engines[&urls[0]].is_empty());
    for path in [
        "drill.toml",
        "comparison.json",
        "n1-load1/two/block-02/requests.jsonl",
        "n1-load1/two/block-02/summary.json",
        "n1-load1/two/block-02.servers.json",
    ] {
        assert!(out.join(path).is_file(), "{path}");
    }
    let text = table::render(&drill);
    assert!(text.contains("N = 1, load 1, 2 blocks of each arm"), "{text}");
    assert!(text.contains("refusals of two: 0 counted by the server, 0 seen by clients: equal"));
    server.stop().await;
    fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn a_stopped_drill_counts_complete_rounds_only_and_is_inconclusive() {
    let (server, urls) = engines(1).await;
    let root = scratch("stopped");
    let text = format!("{LOAD}[[arm]]\nname = \"a\"\nurl = \"{}\"\n", urls[0]);
    let design = design(&root, &text);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut stop = Some(stop);
    let tell = |event: Event<'_>| {
        if let (Event::Begins { round: 1, .. }, Some(stop)) = (event, stop.take()) {
            let _ = stop.send(());
        }
    };
    let until = async {
        let _ = stopped.await;
    };
    let drill = hold(design, &root.join("out"), tell, until).await.unwrap();
    assert!(drill.was_interrupted);
    assert_eq!((drill.cells[0].rounds, drill.cells[0].blocks[0].len()), (1, 1));
    assert_eq!(drill.exit_code(), 3);
    server.stop().await;
    fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_and_a_command_that_fails_are_named() {
    let root = scratch("absent");
    let text = format!(
        "{LOAD}[[arm]]\nname = \"broken\"\n\
         command = [\"/bin/sh\", \"-c\", \"echo no model; exit 1\"]\n"
    );
    let out = root.join("out");
    let failed = hold(design(&root, &text), &out, |_| {}, std::future::pending());
    let said = failed.await.unwrap_err().to_string();
    assert!(said.contains("broken ended") && said.ends_with("no model"), "{said}");
    let taken = design(&root, &text).check(&root.join("out")).unwrap_err().to_string();
    assert!(taken.contains("exists and is not empty"), "{taken}");
    fs::remove_dir_all(root).unwrap();
}
