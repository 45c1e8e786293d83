//! Checks that the gateway's file means what it says, and that all its faults are told at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_core::{ClassId, HoldOrder, Knowledge, Mode, Overload, PoolId, TenantId, Tokens};
use forebay_service::Faults;

use super::defaults::{COUNTS, TABLE, TABLES, WORDS};
use super::{Access, Config, ConfigError, PoolTls, Secret};

/// The least that says where workers are.
const POOL: &str = "[[pool]]\nworker = \"http://10.0.0.7:8000\"\n";
/// A digest.
const DIGEST: &str = "b6f54a16e50ddbfb671fbe07b3335330ef46c3d7f9239848ec20ecd62cc525ef";

fn parse(text: &str) -> Result<Config, Faults> {
    Config::parse(Path::new("forebay.toml"), text)
}

/// The faults of a text: the line in the file, what, and the remedy.
#[track_caller]
fn faults(text: &str) -> Vec<(usize, String, String)> {
    let faults = parse(text).expect_err("the text has faults").faults;
    faults.into_iter().map(|fault| (fault.line, fault.what, fault.remedy)).collect()
}

/// The text has one fault only: on this line, with these words in it or in its remedy.
#[track_caller]
fn check(text: &str, line: usize, words: &str) {
    let all = faults(text);
    assert_eq!(all.len(), 1, "{all:?}");
    let (at, what, remedy) = &all[0];
    assert_eq!(*at, line, "{what}");
    assert!(format!("{what} / {remedy}").contains(words), "{what} / {remedy}");
}

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("forebay-config-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn with(self, name: &str, content: &str) -> Self {
        fs::write(self.0.join(name), content).unwrap();
        self
    }

    fn parse(&self, text: &str) -> Result<Config, Faults> {
        Config::parse(&self.0.join("forebay.toml"), text)
    }

    #[track_caller]
    fn check(&self, text: &str, line: usize, words: &str) {
        let told = self.parse(text).unwrap_err().to_string();
        assert!(told.contains(&format!("forebay.toml:{line}: ")) && told.contains(words), "{told}");
        assert_eq!(told.matches("\nhint: ").count(), 1, "{told}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_worker_is_all_that_must_be_said() {
    let config = parse(POOL).unwrap();
    assert_eq!(config.listen.address.to_string(), "127.0.0.1:8080");
    let [pool] = &config.pools[..] else { panic!("one pool") };
    assert_eq!((pool.name.as_str(), pool.mode), ("main", Mode::Hold(HoldOrder::Aged)));
    assert_eq!((pool.block_size, pool.profile.batch_tokens_max), (None, Tokens(2048)));
    assert_eq!(pool.workers[0].to_string(), "http://10.0.0.7:8000");
    assert_eq!(config.service.classes.len(), 1);
    assert_eq!((config.anonymous, config.admin_is_open), (Some(TenantId(0)), true));
    assert_eq!(config.timeouts.first_byte_max, Some(Duration::from_mins(10)));
    assert_eq!((config.record, config.log.access, config.progress), (None, Access::Off, None));
    assert_eq!(config.listen.body_bytes_max, 64 << 20);
}

#[test]
fn flags_mean_the_same_as_the_shortest_file() {
    let workers = ["http://10.0.0.7:8000".to_owned()];
    let mode = Mode::Hold(HoldOrder::Aged);
    assert_eq!(Config::from_flags(None, mode, &workers).unwrap(), parse(POOL).unwrap());
    let config = Config::from_flags(Some("[::1]:0"), Mode::RoundRobin, &workers).unwrap();
    assert_eq!((config.listen.address.port(), config.pools[0].mode), (0, Mode::RoundRobin));
}

#[test]
fn faults_of_flags_are_told_without_a_file_or_a_line() {
    let workers = ["10.0.0.7:8000".to_owned(), "http://::1:8000".to_owned()];
    let error = Config::from_flags(Some("0.0.0.0:80"), Mode::Random, &workers).unwrap_err();
    assert!(matches!(error, ConfigError::Flags(_)));
    let told = error.to_string();
    assert_eq!(told.matches("\nhint: ").count(), 3, "{told}");
    assert!(told.starts_with("0.0.0.0:80 can be reached by others"), "{told}");
    assert!(
        told.find("http:// or https://") < told.find("IPv6"),
        "in the order of the flags: {told}"
    );
}

#[test]
fn the_example_is_valid_and_means_what_its_comments_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = Config::load(&root.join("docs/examples/forebay.toml")).unwrap();
    let [city, lab, operator] = &config.keys[..] else { panic!("three keys") };
    assert_eq!((city.tenant, city.class, city.admin), (TenantId(0), Some(ClassId(0)), false));
    assert_eq!((lab.tenant, lab.class), (TenantId(1), Some(ClassId(2))));
    assert_eq!(lab.models.as_deref(), Some(&["qwen3-8b".to_owned()][..]));
    assert_eq!((operator.admin, operator.models.as_deref()), (true, Some(&[][..])));
    assert_eq!((config.anonymous, config.admin_is_open), (None, false));
    assert_eq!(config.service.classes[2].settings.overload, Overload::Spill(PoolId(2)));
    assert_eq!(config.pools[1].dns[0].host, "embeddings.svc.cluster.local");
    assert_eq!(config.pools[2].workers[0].path_prefix, "/team-a");
}

#[test]
fn every_pool_is_told_settings_that_its_core_accepts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let config = Config::load(&root.join("docs/examples/forebay.toml")).unwrap();
    let of = |nth| config.settings(PoolId(nth));
    for nth in 0..config.pools.len() as u16 {
        assert_eq!(of(nth).faults(), []);
    }
    assert_eq!(of(0).classes[2].overload, Overload::Spill(PoolId(2)));
    // Where it was spilled to it waits, and has been let in already.
    assert_eq!((of(2).classes[2].overload, of(2).classes[2].wait_max), (Overload::Queue, None));
    assert_eq!((of(2).tenants[1].1.concurrency_max, of(2).knowledge), (None, Knowledge::Own));
    assert_eq!(of(0).tenants[1].1.concurrency_max, Some(32));
}

#[test]
fn what_is_shown_reads_back_as_the_same_configuration() {
    let text = format!(
        "[listen]\naddress = \"[::]:8080\"\nwithout_keys = \"anyone may use it\"\nthreads = 3\n\
         connections_per_peer_max = 7\n{POOL}name = \"a\\\"b\"\nmodels = [\"m\"]\n\
         mode = \"kv:dynamo-1.6\"\nexpected_output = 10\nkv_capacity_tokens = 8192\n\
         [[pool]]\nname = \"night\"\ndns = \"https://night:8443/x\"\n\
         [pool.tls]\nserver_name = \"night.example\"\n\
         [[class]]\nname = \"c\"\noverload = \"spill\"\nspill_to = \"night\"\npromise = inf\n\
         [[tenant]]\nname = \"t\"\nclass = \"c\"\nrequests_per_s_max = 0.5\n\
         [tenant_default]\ntokens_per_s_max = 3\n[timeouts]\nfirst_byte_ms_max = 0\n\
         [progress]\ninterval_ms = 5000\n[record]\ndir = \"diary\"\n\
         [log]\naccess = \"json\"\nfile = \"access.log\"\n"
    );
    for text in [POOL, text.as_str()] {
        let config = parse(text).unwrap();
        let shown = config.shown();
        assert_eq!(parse(&shown).unwrap_or_else(|faults| panic!("{faults}\n{shown}")), config);
    }
}

#[test]
fn what_is_shown_of_keys_and_secrets_is_too_little_to_use() {
    let folder = Folder::new("shown")
        .with("workers.key", "sk-workers\n")
        .with("tickets", &"s3cr3t".repeat(8));
    let text = format!(
        "{POOL}headers = \"X-Key: hunter2\"\nkey_file = \"workers.key\"\n\
         [[key]]\nsha256 = \"{DIGEST}\"\n[tickets]\nsecret_file = \"tickets\"\n"
    );
    let config = folder.parse(&text).unwrap();
    let authorization = &config.pools[0].headers["authorization"];
    assert_eq!(authorization.to_str().unwrap(), "Bearer sk-workers");
    assert_eq!(config.ticket_secret, Some(Secret("s3cr3t".repeat(8).into_bytes())));
    for said in [config.shown(), format!("{config:?}")] {
        for secret in ["sk-workers", "hunter2", "s3cr3t", DIGEST] {
            assert!(!said.contains(secret), "{secret}: {said}");
        }
    }
}

#[test]
fn all_faults_come_at_once_in_the_order_of_the_lines() {
    let text = format!(
        "[listen]\nadress = \"x\"\nthreads = -1\n[[pool]]\nname = \"a\"\nmodels = [\"m\"]\n\
         worker = \"10.0.0.7:8000\"\nmode = \"round-robbin\"\n[[pool]]\nname = \"b\"\n\
         models = [\"m\"]\n[[key]]\nsha256 = \"{DIGEST}\"\ntenant = \"nobody\"\n\
         [timeout]\n[health]\npath = \"health\"\n[log]\naccess = \"jason\"\n"
    );
    let all = faults(&text);
    let lines: Vec<usize> = all.iter().map(|(line, ..)| *line).collect();
    assert_eq!(lines, [2, 3, 7, 8, 9, 11, 14, 15, 17, 19], "{all:#?}");
    let told = parse(&text).unwrap_err().to_string();
    assert!(told.starts_with("forebay.toml:2: [listen] has no key `adress`\nhint: did you mean"));
    assert!(told.contains("forebay.toml:15: the file has no key `timeout`\nhint: did you mean"));
}

#[test]
fn beyond_this_machine_it_needs_keys_or_a_sentence() {
    let open = |more: &str| format!("[listen]\naddress = \"0.0.0.0:8080\"\n{more}{POOL}");
    check(&open(""), 2, "`without_keys = \"anyone may use it\"`");
    check(&open("without_keys = \"yes\"\n"), 3, "`without_keys = \"anyone may use it\"`");
    let config = parse(&open("without_keys = \"anyone may use it\"\n")).unwrap();
    assert_eq!((config.anonymous, config.admin_is_open), (Some(TenantId(0)), false));
    let config = parse(&(open("") + &format!("[[key]]\nsha256 = \"{DIGEST}\"\n"))).unwrap();
    assert_eq!((config.anonymous, config.admin_is_open), (None, false));
    for loopback in ["127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        let text = format!("[listen]\naddress = \"{loopback}\"\n{POOL}");
        assert!(parse(&text).unwrap().admin_is_open, "{loopback}");
    }
    for address in ["localhost:8080", "8080", "127.0.0.1", "::1:8080", "127.0.0.1:70000"] {
        let text = format!("[listen]\naddress = \"{address}\"\n{POOL}");
        check(&text, 2, "no address to listen on");
    }
}

#[test]
fn requests_without_a_key_have_a_tenant_of_their_own() {
    let tenant = "[tenant_default]\nweight = 7\n[[tenant]]\nname = \"city\"\n";
    let config = parse(&format!("{POOL}{tenant}")).unwrap();
    assert_eq!(config.anonymous, Some(TenantId(1)));
    assert_eq!(config.service.tenants[1].name, "anonymous");
    assert_eq!(config.service.tenants[1].settings.weight, 7);
    let named = "[[tenant]]\nname = \"anonymous\"\nweight = 2\n";
    let config = parse(&format!("{POOL}{tenant}{named}")).unwrap();
    assert_eq!((config.service.tenants.len(), config.anonymous), (2, Some(TenantId(1))));
    assert_eq!(config.service.tenants[1].settings.weight, 2);
}

#[test]
fn a_key_in_clear_is_refused_with_the_way_to_its_digest_and_not_repeated() {
    for line in
        ["sha256 = \"sk-verysecret\"", "key = \"sk-verysecret\"", "token = \"sk-verysecret\""]
    {
        let text = format!("{POOL}[[key]]\n{line}\n");
        check(&text, 4, "`printf %s KEY | sha256sum`");
        assert!(!parse(&text).unwrap_err().to_string().contains("verysecret"));
    }
    check(&format!("{POOL}[[key]]\nadmin = true\n"), 3, "has no `sha256`");
    let almost = format!("{POOL}[[key]]\nsha256 = \"{}g\"\n", &DIGEST[1..]);
    check(&almost, 4, "64 characters, of 64 hexadecimal ones");
    check(&format!("{POOL}[[key]]\nsha256 = \"{}\"\n", &DIGEST[1..]), 4, "63 characters");
    let upper = format!("{POOL}[[key]]\nsha256 = \"{}\"\n", DIGEST.to_uppercase());
    assert_eq!(parse(&upper).unwrap().keys[0].sha256[..2], [0xb6, 0xf5]);
}

#[test]
fn keys_name_what_is_known_and_are_there_once() {
    let key = |more: &str| format!("[[key]]\nsha256 = \"{DIGEST}\"\n{more}");
    let tenant = "[[tenant]]\nname = \"city\"\n";
    let class = "[[class]]\nname = \"public\"\noverload = \"queue\"\n";
    check(&format!("{POOL}{}{}", key(""), key("")), 5, "the first is on line 3");
    check(&format!("{POOL}{tenant}{}", key("")), 5, "add `tenant`: `city`");
    check(&format!("{POOL}{tenant}{}", key("tenant = \"citi\"\n")), 7, "did you mean `city`?");
    check(&format!("{POOL}{class}{}", key("class = \"x\"\n")), 8, "the known ones are `public`");
    let models = format!("{POOL}models = [\"qwen\"]\n{}", key("models = [\"qwem\"]\n"));
    check(&models, 6, "did you mean `qwen`?");
    // Only the workers know: nothing can be said.
    assert!(parse(&format!("{POOL}{}", key("models = [\"any\"]\n"))).is_ok());
    let admin = parse(&format!("{POOL}{tenant}{}", key("admin = true\n"))).unwrap();
    assert!(admin.keys[0].admin);
}

#[test]
fn pools_are_told_apart_by_name_model_and_worker() {
    let pool = |name: &str, model: &str, port: u16| {
        format!(
            "[[pool]]\nname = \"{name}\"\nmodels = [\"{model}\"]\n\
             worker = \"http://10.0.0.7:{port}\"\n"
        )
    };
    assert!(parse(&(pool("a", "m", 1) + &pool("b", "n", 2))).is_ok());
    check(&(pool("a", "m", 1) + &pool("a", "n", 2)), 6, "[[pool]] `a` is there twice");
    check(&(pool("a", "m", 1) + &pool("b", "m", 2)), 7, "the model `m` is there twice");
    check(&(pool("a", "m", 1) + &pool("b", "n", 1)), 8, "the first is on line 4");
    check(&(pool("a", "m", 1) + &pool("b", "", 2)), 7, "a model without a name");
    let same = "[[pool]]\nworker = [\"http://h\", \"HTTP://H:80/\"]\n";
    check(same, 2, "the worker `http://h:80` is there twice");
    check("", 1, "no pool of workers");
    check(&(pool("a", "m", 1) + "[[pool]]\nworker = []\nmodels = [\"n\"]\n"), 5, "has no `name`");
}

#[test]
fn every_pool_can_be_reached_and_no_class_spills_into_where_it_comes_from() {
    let pool = |name: &str, more: &str| format!("[[pool]]\nname = \"{name}\"\nworker = []\n{more}");
    let (day, night) = (pool("day", "models = [\"m\"]\n"), pool("night", ""));
    check(&format!("{day}{night}"), 5, "nothing reaches the pool `night`");
    let class =
        |to: &str| format!("[[class]]\nname = \"c\"\noverload = \"spill\"\nspill_to = \"{to}\"\n");
    assert!(parse(&format!("{day}{night}{}", class("night"))).is_ok());
    check(&format!("{day}{}", class("day")), 1, "`c` spills into the pool `day` it comes from");
    check(&format!("{day}{}", class("nigth")), 8, "unknown pool `nigth`");
}

#[test]
fn a_pool_says_where_its_workers_are_even_if_that_is_nowhere_yet() {
    check("[[pool]]\n", 1, "`worker = []`");
    assert!(parse("[[pool]]\nworker = []\n").unwrap().pools[0].workers.is_empty());
    check("[[pool]]\ndns = \"http://10.0.0.7:8000\"\n", 2, "list it under `worker`");
    check("[[pool]]\nworker = \"http://::1:8000\"\n", 2, "IPv6 address without brackets");
}

#[test]
fn more_workers_than_may_join_are_one_fault() {
    let text = "[[pool]]\nworker = [\"http://a\", \"http://b\",\n\"http://c\"]\n\
                [limits]\nworkers_max = 2\n";
    check(text, 3, "a pool of 3 workers, of at most 2");
}

#[test]
fn headers_for_workers_are_names_and_values_that_are_not_repeated() {
    let with = |line: &str| format!("{POOL}headers = {line}\n");
    let config = parse(&with("[\"X-Team: a: b\", \"x-team:c\"]")).unwrap();
    let values: Vec<_> = config.pools[0].headers.get_all("x-team").iter().collect();
    assert_eq!(values, ["a: b", "c"]);
    check(&with("\"X-Secret hunter2\""), 3, "\"X-Team: research\"");
    check(&with("\"X: hunter2\\u0007\""), 3, "a header that is none");
    check(&with("\"Transfer-Encoding: chunked\""), 3, "set for each request anew");
    let told = parse(&with("\"X-Secret hunter2\"")).unwrap_err().to_string();
    assert!(!told.contains("hunter2"));
}

#[test]
fn files_that_are_named_must_be_there() {
    let folder = Folder::new("files")
        .with("a.pem", "x")
        .with("short", "guess me")
        .with("two-lines", "a\nb\n")
        .with("key", "sk-1\n");
    let tls = |more: &str| format!("{POOL}[listen.tls]\n{more}");
    folder.check(&tls("cert = \"a.pem\"\n"), 3, "needs both `cert` and `key`");
    folder.check(&tls("cert = \"a.pem\"\nkey = \"b.pem\"\n"), 5, "b.pem: no such file");
    folder.check(&tls("cert = \".\"\nkey = \"a.pem\"\n"), 4, "it is a folder");
    let config = folder.parse(&tls("cert = \"a.pem\"\nkey = \"a.pem\"\n")).unwrap();
    assert_eq!(config.listen.tls.unwrap().cert, folder.0.join("a.pem"));
    folder.check(&format!("{POOL}key_file = \"two-lines\"\n"), 3, "holds no key");
    folder.check(&format!("{POOL}key_file = \"none\"\n"), 3, "no such file");
    let both = format!("{POOL}key_file = \"key\"\nheaders = \"authorization: Basic eA==\"\n");
    folder.check(&both, 3, "leave one of them out");
    let secret = format!("{POOL}[tickets]\nsecret_file = \"short\"\n");
    folder.check(&secret, 4, "head -c 32 /dev/urandom");
}

#[test]
fn tls_to_workers_needs_workers_that_speak_it_and_both_halves_of_a_certificate() {
    let folder = Folder::new("pool-tls").with("a.pem", "x");
    let pool =
        |scheme: &str, tls: &str| format!("[[pool]]\nworker = \"{scheme}://w\"\n[pool.tls]\n{tls}");
    folder.check(&pool("http", "ca = \"a.pem\"\n"), 3, "no worker of the pool is spoken to");
    folder.check(&pool("https", "cert = \"a.pem\"\n"), 3, "one of `cert` and `key` only");
    folder.check(&pool("https", "client_ca = \"a.pem\"\n"), 4, "[pool.tls] has no key");
    let text = "ca = \"a.pem\"\ncert = \"a.pem\"\nkey = \"a.pem\"\nserver_name = \"w.x\"\n";
    let config = folder.parse(&pool("https", text)).unwrap();
    let file = folder.0.join("a.pem");
    let expected = PoolTls {
        ca: Some(file.clone()),
        identity: Some((file.clone(), file)),
        server_name: Some("w.x".to_owned()),
    };
    assert_eq!(config.pools[0].tls, expected);
}

#[test]
fn what_contradicts_itself_is_told() {
    let one = format!("[listen]\nbody_bytes_max = 100\nbodies_bytes_max = 99\n{POOL}");
    check(&one, 2, "raise `bodies_bytes_max`");
    check(&format!("{POOL}[record]\nbytes_max = 100000\n"), 4, "add `dir`");
    check(&format!("{POOL}[log]\nfile = \"x\"\n"), 4, "add `access = \"json\"`");
    check(&format!("{POOL}knowledge = \"events\"\n"), 3, "say `own`");
    check(&format!("{POOL}[scrape]\npath = \"/a b\"\n"), 4, "such as /metrics");
    check(&format!("{POOL}[progress]\ninterval_ms = 10\n"), 4, "from 1000 to 600000");
}

#[test]
fn every_key_of_the_reference_has_a_reason_a_known_table_and_a_default_within_its_range() {
    let is_table = |name: &str| TABLES.iter().any(|(table, _)| *table == name);
    for key in TABLE {
        assert!(is_table(key.table) && !key.why.is_empty(), "{}.{}", key.table, key.name);
        if let Some(default) = key.default {
            assert!((key.least..=key.most).contains(&default), "{}.{}", key.table, key.name);
        }
    }
    for word in WORDS {
        assert!(is_table(word.table) && !word.why.is_empty(), "{}.{}", word.table, word.name);
    }
    assert!(COUNTS.iter().all(|count| is_table(count.table)));
}

#[test]
fn every_key_of_the_reference_is_one_that_the_reader_asks_for() {
    let tables: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
    let is_list = |table: &str| ["pool", "key"].contains(&table);
    for table in tables {
        let title = if is_list(table) { format!("[[{table}]]") } else { format!("[{table}]") };
        let before = if table == "pool.tls" { "[[pool]]\n" } else { "" };
        // A wrong type for every key: each is a fault of its own, and none is unknown.
        let words = WORDS.iter().filter(|word| word.table == table).map(|word| word.name);
        let numbers = TABLE.iter().filter(|key| key.table == table).map(|key| key.name);
        let lines: Vec<String> =
            words.chain(numbers).map(|name| format!("{name} = {{}}")).collect();
        let told = parse(&format!("{before}{title}\n{}\n", lines.join("\n"))).unwrap_err();
        for fault in told.faults {
            assert!(!fault.what.contains("has no key"), "{table}: {}", fault.what);
        }
    }
}

#[test]
fn only_what_a_running_gateway_can_change_needs_no_restart() {
    let before = parse(POOL).unwrap();
    let live = format!(
        "[listen]\nbody_bytes_max = 5\n[[pool]]\nworker = \"http://10.0.0.8:8000\"\n\
         mode = \"random\"\n[timeouts]\nidle_ms_max = 5\n\
         [[class]]\nname = \"c\"\noverload = \"queue\"\n[[key]]\nsha256 = \"{DIGEST}\"\n"
    );
    let live = parse(&live).unwrap();
    assert_eq!(before.diff_needs_restart(&live), Vec::<String>::new());
    let text = "[listen]\naddress = \"127.0.0.1:9\"\nthreads = 2\n[[pool]]\nblock_size = 16\n\
                worker = []\n[record]\ndir = \"x\"\n";
    let differences = before.diff_needs_restart(&parse(text).unwrap());
    let expected = [
        "`address` under [listen]",
        "`threads` under [listen]",
        "[record]",
        "`block_size` of the pool `main`",
    ];
    assert_eq!(differences, expected);
    let renamed = parse("[[pool]]\nname = \"x\"\nworker = []\n").unwrap();
    assert_eq!(before.diff_needs_restart(&renamed), ["the names of the pools, or their order"]);
}

#[test]
fn classes_and_tenants_keep_their_numbers_when_the_file_changes_under_a_running_gateway() {
    let class = |name: &str| format!("[[class]]\nname = \"{name}\"\noverload = \"queue\"\n");
    let tenant =
        |name: &str, class: &str| format!("[[tenant]]\nname = \"{name}\"\nclass = \"{class}\"\n");
    let key = |tenant: &str| format!("[[key]]\nsha256 = \"{DIGEST}\"\ntenant = \"{tenant}\"\n");
    let text = |parts: &[String]| format!("{POOL}{}", parts.concat());
    let running = text(&[class("a"), class("b"), tenant("s", "a"), tenant("t", "b"), key("t")]);
    let running = parse(&running).unwrap();
    let new = text(&[class("c"), class("b"), tenant("u", "c"), tenant("t", "c"), key("t")]);
    let new = parse(&new).unwrap().numbered_as(&running);
    let names: Vec<&str> = new.service.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let tenants: Vec<(&str, Option<usize>)> =
        new.service.tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.class)).collect();
    assert_eq!(tenants, [("s", Some(0)), ("t", Some(2)), ("u", Some(2))]);
    assert_eq!((new.keys[0].tenant, new.keys[0].class), (TenantId(1), Some(ClassId(2))));
    assert_eq!(new.settings(PoolId(0)).faults(), []);
    // The same file again changes nothing.
    assert_eq!(new.clone().numbered_as(&new), new);
}

#[test]
fn limits_that_hold_in_several_pools_apart_are_pointed_out() {
    let tenant = "[[tenant]]\nname = \"t\"\nrequests_per_s_max = 5\n";
    let key = format!("[[key]]\nsha256 = \"{DIGEST}\"\ntenant = \"t\"\n");
    let pool =
        |name: &str| format!("[[pool]]\nname = \"{name}\"\nmodels = [\"{name}\"]\nworker = []\n");
    let cautions = |text: &str| parse(text).unwrap().cautions();
    let (one, two) = (pool("a"), pool("a") + &pool("b"));
    assert_eq!(cautions(&format!("{one}{tenant}{key}")), Vec::<String>::new());
    assert_eq!(cautions(&two), Vec::<String>::new(), "nobody has limits");
    let told = cautions(&format!("{two}{tenant}{key}"));
    assert!(told.len() == 1 && told[0].contains("`t` hold in each of 2 pools"), "{told:?}");
}
