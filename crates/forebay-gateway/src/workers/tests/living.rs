//! Checks the watch over workers that are there, that stall, and that come and go.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::{Input, Moment, Observation, Output, Tokens, WorkerId};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::stub::{Page, Pages, Stub, metrics, says};
use crate::clock::Clock;
use crate::fixture;
use crate::pool::{Diary, Pool};
use crate::workers::discover::{Urls, by_name};
use crate::workers::fleet::{Fleet, Reach, Source};
use crate::workers::options::WatchOptions;
use crate::workers::silence::Owed;
use crate::workers::watch::ProbeFault;

/// Hears what the core is told of workers.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<(WorkerId, Observation)>>>);

impl Diary for Heard {
    fn told(&mut self, _: Moment, input: &Input) {
        if let Input::Observed(worker, what) = input
            && !matches!(what, Observation::Load(_))
        {
            self.0.lock().unwrap().push((*worker, what.clone()));
        }
    }
    fn said(&mut self, _: Moment, _: &Output) {}
}

impl Heard {
    fn count(&self, is: impl Fn(&Observation) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|(_, what)| is(what)).count()
    }
    fn joins(&self) -> usize {
        self.count(|what| matches!(what, Observation::Joined(_)))
    }
}

/// Fast, so that a test is short.
fn options() -> WatchOptions {
    let mut options = WatchOptions::default();
    options.probe.every = Duration::from_millis(20);
    options.probe.every_away = Duration::from_millis(20);
    options.probe.timeout = Duration::from_millis(500);
    options.probe.attempt_every = Duration::from_millis(50);
    options.scrape.every = Duration::from_millis(20);
    options.scrape.timeout = Duration::from_millis(500);
    options.scrape.first_within = Duration::from_millis(300);
    options.silence_max = Duration::from_millis(300);
    options.gone_after = Duration::from_millis(100);
    options.tick = Duration::from_millis(10);
    options
}

fn watch(options: WatchOptions) -> (Fleet, Arc<Pool>, Heard) {
    let heard = Heard::default();
    let pool = fixture::pool("main", Clock::start(), Some(Box::new(heard.clone())));
    let pools = [(Arc::clone(&pool), Reach::default(), options)];
    (Fleet::new(Handle::current(), pools), pool, heard)
}

/// Waits until it is so; how long that takes says nothing, unless it never is.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}

fn usable(pool: &Pool) -> usize {
    pool.workers().iter().filter(|worker| worker.usable).count()
}

#[tokio::test]
async fn a_worker_is_used_once_it_is_well_with_the_capacity_that_it_tells() {
    let stub = Stub::on("127.0.0.1:0", Pages { health: Page::Hangs, ..Pages::well() }).await;
    let (fleet, pool, heard) = watch(options());
    fleet.join(0, &stub.url(), Source::List).unwrap();
    sleep(Duration::from_millis(700)).await;
    assert_eq!(pool.workers(), [], "a probe that is never answered is none that is well");
    stub.change(|pages| pages.health = says(200, ""));
    until("it is used", || usable(&pool) == 1).await;
    assert_eq!(pool.workers()[0].capacity, Tokens(1600));
    assert_eq!(stub.completions.load(Ordering::SeqCst), 0, "it has let nobody down");
    let report = &fleet.reports(0)[0];
    assert_eq!((report.state, report.figures.waiting), ("healthy", Some(0)));
    assert_eq!(report.models[0].name, "tiny");
    assert_eq!(heard.joins(), 1);
}

#[tokio::test]
async fn metrics_that_never_end_keep_nobody_from_using_the_worker() {
    for page in [Page::Trickles, Page::Floods, Page::Hangs, says(404, ""), says(200, "<html>")] {
        let pages = Pages { metrics: page, models: Page::Trickles, ..Pages::well() };
        let stub = Stub::on("127.0.0.1:0", pages).await;
        let (fleet, pool, heard) = watch(options());
        fleet.join(0, &stub.url(), Source::List).unwrap();
        until("it is used all the same", || usable(&pool) == 1).await;
        assert!(
            heard
                .0
                .lock()
                .unwrap()
                .contains(&(WorkerId(0), Observation::Joined(WatchOptions::default().profile)))
        );
        stub.change(|pages| pages.metrics = says(200, &metrics(1.0, 1)));
        let capacity = Observation::Capacity(Tokens(1600));
        until("its figures are read later", || heard.count(|what| *what == capacity) == 1).await;
    }
}

#[tokio::test]
async fn a_worker_without_a_health_page_is_one_all_the_same() {
    let stub = Stub::on("127.0.0.1:0", Pages { health: says(404, ""), ..Pages::well() }).await;
    let (fleet, pool, _) = watch(options());
    fleet.join(0, &stub.url(), Source::List).unwrap();
    until("it is used", || usable(&pool) == 1).await;
}

#[tokio::test]
async fn a_worker_that_fails_its_probes_is_shown_with_the_reason() {
    let stub = Stub::on("127.0.0.1:0", Pages { health: says(500, ""), ..Pages::well() }).await;
    let (fleet, _, _) = watch(options());
    fleet.join(0, &stub.url(), Source::List).unwrap();
    let fault = || fleet.reports(0)[0].probe_fault.map(|fault| (fault.reason, fault.status));
    until("it says that it is ill", || fault() == Some(("status", Some(500)))).await;
    stub.change(|pages| pages.health = Page::Hangs);
    until("it does not answer", || fault() == Some(("timeout", None))).await;
    stub.change(|pages| pages.health = Page::Floods);
    until("it says too much", || fault() == Some(("too_long", None))).await;
    stub.change(|pages| pages.health = says(404, ""));
    until("it is well", || fault().is_none()).await;
    drop(stub);
    until("nobody listens there", || fault() == Some(("refused", None))).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    tokio::spawn(async move { while silent.accept().await.is_ok() {} });
    for (url, reason) in [
        (format!("http://127.0.0.1:{port}"), "broken_off"),
        (format!("https://127.0.0.1:{port}"), "tls"),
        ("http://no-such-worker.invalid:80".to_owned(), "dns"),
    ] {
        let (fleet, _, _) = watch(options());
        fleet.join(0, &url.parse().unwrap(), Source::List).unwrap();
        let reason = |fault: ProbeFault| fault.reason == reason;
        until(&url, || fleet.reports(0)[0].probe_fault.is_some_and(reason)).await;
    }
}

#[tokio::test]
async fn a_worker_that_goes_is_spared_and_is_used_again_when_it_comes_back() {
    let stub = Stub::on("127.0.0.1:0", Pages::well()).await;
    let (addr, url) = (stub.addr.to_string(), stub.url());
    let (fleet, pool, heard) = watch(options());
    fleet.join(0, &url, Source::List).unwrap();
    until("it is used", || usable(&pool) == 1).await;
    drop(stub);
    until("it is lost", || heard.count(|what| *what == Observation::Lost) == 1).await;
    assert_eq!((usable(&pool), pool.workers().len()), (0, 1), "it is still one of the pool's");
    let stub = Stub::on(&addr, Pages::well()).await;
    until("it is used again", || usable(&pool) == 1).await;
    assert!(stub.completions.load(Ordering::SeqCst) > 0, "it was tried out");
    assert_eq!(heard.joins(), 2);
}

#[tokio::test]
async fn a_stalled_worker_is_lost_and_comes_back_by_a_completion_and_not_by_its_health() {
    let stub = Stub::on("127.0.0.1:0", Pages::well()).await;
    let (fleet, pool, heard) = watch(options());
    let id = fleet.join(0, &stub.url(), Source::List).unwrap();
    until("it is used", || usable(&pool) == 1).await;
    stub.change(|pages| pages.completions = Page::Hangs);
    let mut owed = Owed::by(&pool.roster.get(id).unwrap());
    owed.set(true);
    until("it is lost", || heard.count(|what| *what == Observation::Lost) == 1).await;
    drop(owed);
    until("it is tried out", || stub.completions.load(Ordering::SeqCst) > 2).await;
    assert_eq!(fleet.reports(0)[0].state, "silent");
    assert_eq!(heard.joins(), 1);
    stub.change(|pages| pages.completions = says(200, "{}"));
    until("it is used again", || usable(&pool) == 1).await;
}

#[tokio::test]
async fn counts_that_grow_are_a_sign_of_life_for_a_worker_that_owes_something() {
    let stub = Stub::on("127.0.0.1:0", Pages::well()).await;
    let (fleet, pool, heard) = watch(options());
    let id = fleet.join(0, &stub.url(), Source::List).unwrap();
    until("it is used", || usable(&pool) == 1).await;
    let mut owed = Owed::by(&pool.roster.get(id).unwrap());
    owed.set(true);
    // Far below the silence that is allowed, so that a slow machine does not look like one.
    for tokens in 11..110 {
        stub.change(|pages| pages.metrics = says(200, &metrics(100.0, tokens)));
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(heard.count(|what| *what == Observation::Lost), 0);
    until("it stalls", || heard.count(|what| *what == Observation::Lost) == 1).await;
}

#[tokio::test]
async fn a_worker_restarted_in_place_joins_again_with_its_new_capacity() {
    let stub = Stub::on("127.0.0.1:0", Pages::well()).await;
    let (fleet, pool, heard) = watch(options());
    fleet.join(0, &stub.url(), Source::List).unwrap();
    until("it is used", || usable(&pool) == 1).await;
    let other = metrics(200.0, 50).replace("\"100\"", "\"200\"");
    stub.change(|pages| pages.metrics = says(200, &other));
    until("it joins again", || heard.joins() == 2).await;
    until("with more", || pool.workers()[0].capacity == Tokens(3200)).await;
    stub.change(|pages| pages.metrics = says(200, &other.replace(" 50", " 3")));
    until("it has counted less", || heard.joins() == 3).await;
    assert_eq!(heard.count(|what| *what == Observation::Lost), 0);
}

#[tokio::test]
async fn a_worker_that_comes_and_goes_a_hundred_times_leaves_nothing_behind() {
    let stub = Stub::on("127.0.0.1:0", Pages::well()).await;
    let (fleet, pool, heard) = watch(options());
    let (url, name) = (stub.url(), stub.url().to_string());
    let tasks = Handle::current().metrics().num_alive_tasks();
    for nth in 0..100 {
        let id = fleet.join(0, &url, Source::Admin).unwrap();
        assert_eq!(id, WorkerId(0), "it keeps its name for the core");
        if nth % 2 == 0 {
            until("it is used", || usable(&pool) == 1).await;
        }
        assert!(fleet.leave(&name, nth % 3 == 0));
        until("it is gone", || fleet.reports(0).is_empty() && pool.workers().is_empty()).await;
    }
    until("nobody lists it", || pool.roster.all().is_empty()).await;
    until("nobody watches it", || Handle::current().metrics().num_alive_tasks() <= tasks).await;
    assert!(heard.joins() >= 50);
    assert!(!fleet.drain(&name));
}

#[tokio::test]
async fn a_drained_worker_takes_nothing_new_until_it_is_undrained() {
    let stub = Stub::on("127.0.0.1:0", Pages::well()).await;
    let (fleet, pool, _) = watch(options());
    let name = stub.url().to_string();
    fleet.join(0, &stub.url(), Source::List).unwrap();
    until("it is used", || usable(&pool) == 1).await;
    assert!(fleet.drain(&name) && fleet.drain(&name));
    assert_eq!((usable(&pool), fleet.state(&name)), (0, Some("draining")));
    fleet.join(0, &stub.url(), Source::Name("other".into())).unwrap();
    assert_eq!(usable(&pool), 0, "a source does not take back what was asked for it");
    assert!(fleet.undrain(&name));
    assert_eq!(usable(&pool), 1);
}

#[tokio::test]
async fn a_worker_leaves_with_the_last_source_that_names_it() {
    let stub = Stub::on("127.0.0.1:0", Pages::well()).await;
    let (fleet, pool, _) = watch(options());
    let listed = by_name([stub.url()]);
    let other = Source::Name("other".into());
    fleet.list(0, &Source::List, &Urls::new(), &listed);
    fleet.list(0, &other, &Urls::new(), &listed);
    until("it is used", || usable(&pool) == 1).await;
    fleet.list(0, &Source::List, &listed, &Urls::new());
    assert_eq!(usable(&pool), 1);
    fleet.list(0, &other, &listed, &Urls::new());
    until("it is gone", || pool.workers().is_empty()).await;
    fleet.list(0, &other, &Urls::new(), &listed);
    until("it is back", || usable(&pool) == 1).await;
}

#[tokio::test]
async fn workers_are_reached_by_ipv6_and_by_a_name_with_addresses_of_two_families() {
    let (fleet, pool, _) = watch(options());
    let Ok(_) = std::net::TcpListener::bind("[::1]:0") else {
        println!("skipped: there is no IPv6 here");
        return;
    };
    let six = Stub::on("[::1]:0", Pages::well()).await;
    fleet.join(0, &six.url(), Source::List).unwrap();
    until("it is used", || usable(&pool) == 1).await;
    assert_eq!(&*fleet.reports(0)[0].name, format!("http://[::1]:{}", six.addr.port()));
    let four = Stub::on("127.0.0.1:0", Pages::well()).await;
    let name = format!("http://localhost:{}", four.addr.port()).parse().unwrap();
    let following = fleet.follow_name(0, name, Duration::from_millis(50));
    until("the name's worker is used", || usable(&pool) == 2).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(pool.workers().len(), 2, "once, however many addresses it has");
    following.abort();
}
