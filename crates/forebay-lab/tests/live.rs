//! Holds live drills against modelled engines on loopback.
#![expect(clippy::unwrap_used, reason = "a test that can't go on may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use forebay_lab::compare::{Given, compare};
use forebay_lab::engine::Preset;
use forebay_lab::engine_server::{EngineServer, Options};
use forebay_lab::live::{Design, Drill, Event, hold, table};
use forebay_lab::report::{self, Origin};

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
        if matches!(event, Event::Begins { round: 1, .. })
            && let Some(stop) = stop.take()
        {
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

fn reported(drill: &Drill, out: &Path) -> Option<String> {
    let origin = Origin::of(&["forebay".to_owned()], &[&drill.design.file]).unwrap();
    report::live::drill::write(drill, &origin, out).unwrap()
}

#[tokio::test]
async fn a_sweep_leaves_one_report_of_all_its_cells_that_can_be_verified() {
    let (server, urls) = engines(2).await;
    let root = scratch("report");
    let arm = |name: &str| {
        format!(
            "[[arm]]\nname = \"{name}\"\nurl = \"{}\"\nmetrics = \"/metrics\"\n\
             refusals = \"vllm:no_such_counter\"\nmode = \"round-robin\"\n",
            urls[0]
        )
    };
    let load = LOAD.replace("requests = 30", "requests = 20\nloads = [1, 2.5]");
    let text = format!(
        "sign_off = \"sign-off.toml\"\n{load}[engines]\nurls = [\"{}\", \"{}\"]\n\
         workers = [1, 2]\n[simulated]\nengine = \"a100-40gb/qwen3-8b\"\n{}{}",
        urls[0],
        urls[1],
        arm("zebra"),
        arm("ant")
    );
    let sign_off = "service = \"Chat\"\ndecision = \"Open it\"\n[[decides]]\nrole = \"owner\"\n";
    fs::write(root.join("sign-off.toml"), sign_off).unwrap();
    let out = root.join("out");
    let drill = hold(design(&root, &text), &out, |_| {}, std::future::pending()).await.unwrap();
    server.stop().await;
    let seal = reported(&drill, &out).unwrap();
    let verified = report::verify(&out).unwrap();
    assert!(verified.holds() && verified.seal == seal, "{verified:?}");
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    for said in [
        drill.outcome().name(),
        "<h2 id=\"sign-off-h\">Sign-off</h2>",
        "<h2 id=\"sweep-h\">Over the load</h2>",
        "<h2 id=\"n2-load2.5-h\">N = 2, load 2.5</h2>",
        "<h2 id=\"simulated-h\">Beside the simulation</h2>",
        "<h3 id=\"n1-load1-ttft-h\">Time to first token</h3>",
        "<h3 id=\"n1-load1-server-h\">Refusals, as the server counts them</h3>",
        "n2-load1/ant/block-02/requests.jsonl",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), unique.len(), "{ids:?}");
    for file in ["sweep.svg", "n1-load1-ttft.svg", "criteria.toml", "summary.md"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    // The same cell is read back with the verdict that the drill came to.
    let cell = out.join("n2-load2.5").display().to_string();
    let given = Given::read(&[cell], &[]).unwrap();
    let again = compare(&given.arms, &drill.design.criteria, &given.options(1, 2_000)).unwrap();
    let held = drill.cells.iter().find(|done| done.cell.name() == "n2-load2.5").unwrap();
    assert_eq!(again.outcome(), held.comparison.as_ref().unwrap().outcome());
    assert_eq!(given.counted, held.counted(&drill.design));
    assert_eq!(given.simulated, held.simulated(&drill.design));
    // A run that somebody has mended is found, and what was put in as well.
    fs::write(out.join("n1-load1/ant/block-01/requests.jsonl"), "").unwrap();
    fs::write(out.join("n1-load1/note.txt"), "I was never here").unwrap();
    fs::remove_file(out.join("drill.toml")).unwrap();
    assert_eq!(
        report::verify(&out).unwrap().faults(),
        [
            "changed: n1-load1/ant/block-01/requests.jsonl",
            "missing: drill.toml",
            "added: n1-load1/note.txt"
        ]
    );
    // The runs of a drill are never replaced by a report.
    assert!(report::check(&out).is_err());
    fs::remove_dir_all(root).unwrap();
}

#[tokio::test]
async fn a_drill_of_one_cell_has_the_page_of_a_report_and_says_that_it_was_stopped() {
    let (server, urls) = engines(1).await;
    let root = scratch("one");
    let text = format!("{LOAD}[[arm]]\nname = \"a\"\nurl = \"{}\"\n", urls[0]);
    let out = root.join("out");
    let drill = hold(design(&root, &text), &out, |_| {}, std::future::pending()).await.unwrap();
    server.stop().await;
    let stopped = Drill { was_interrupted: true, ..drill };
    reported(&stopped, &out).unwrap();
    assert!(report::verify(&out).unwrap().holds());
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("The drill was stopped before its end"));
    assert!(page.contains("badge inconclusive"), "nothing that was stopped is GO");
    assert!(!page.contains("<h3"));
    let none = Drill { cells: Vec::new(), ..stopped };
    assert_eq!(reported(&none, &out), None);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_sign_off_and_the_criteria_of_a_drill_must_agree() {
    let root = scratch("signed");
    let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
    write("limit.toml", "refused_share_max = 0.01\n");
    write("other.toml", "refused_share_max = 0.02\n");
    let decides = "service = \"Chat\"\ndecision = \"Open it\"\n[[decides]]\nrole = \"owner\"\n";
    write("sign-off.toml", &format!("criteria = \"limit.toml\"\n{decides}"));
    let load = format!("{LOAD}[[arm]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n");
    let design = design(&root, &format!("sign_off = \"sign-off.toml\"\n{load}"));
    assert_eq!(design.criteria.canonical(), "refused_share_max = 0.01\n");
    for (first, said) in [
        ("criteria = \"other.toml\"\nsign_off = \"sign-off.toml\"\n", "other criteria than"),
        ("sign_off = \"none.toml\"\n", "none.toml"),
    ] {
        let text = format!("{first}{load}");
        let error = Design::parse(&root.join("drill.toml"), &text).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("hint: "), "{error}");
    }
    fs::remove_dir_all(root).unwrap();
}
