//! Lets the clients that people use talk to what the program serves.
//!
//! The official Python client comes from `FOREBAY_PYTHON`, a Python that has the package `openai`;
//! `cargo xtask ci` makes one. Where there is none, and where `curl` is missing, a test says that
//! it was skipped.

mod served;

use std::process::{Command, Stdio};

use served::{Relay, Served, skipped};

/// The Python client's side of the talk: the URL and the model come as arguments, every line that
/// it prints is a thing that came back.
const PYTHON: &str = r#"
import sys
from openai import BadRequestError, NotFoundError, OpenAI

url, model = sys.argv[1:3]
client = OpenAI(base_url=url + "/v1", api_key="none", max_retries=2, timeout=60)
say = [{"role": "user", "content": "How much water does a forebay hold?"}]
exact = {"max_tokens": 5, "extra_body": {"min_tokens": 5, "ignore_eos": True}}

print("models", ",".join(each.id for each in client.models.list().data))

whole = client.chat.completions.create(model=model, messages=say, **exact)
choice = whole.choices[0]
print("chat", choice.finish_reason, whole.usage.completion_tokens, len(choice.message.content) > 0)

pieces, usage = [], None
options = {"include_usage": True}
with client.chat.completions.create(
    model=model, messages=say, stream=True, stream_options=options, **exact
) as stream:
    for chunk in stream:
        pieces += [each.delta.content for each in chunk.choices if each.delta.content]
        usage = chunk.usage or usage
# An engine that is behind puts several tokens into one piece.
print("stream", 0 < len(pieces) <= 5, usage.completion_tokens, usage.prompt_tokens > 5)

text = client.completions.create(model=model, prompt="one two three", **exact)
print("text", text.usage.prompt_tokens, text.usage.completion_tokens)

raw = client.chat.completions.with_raw_response.create(model=model, messages=say, max_tokens=1)
print("raw", raw.status_code, raw.headers["content-type"])

for wrong, model_asked, words in (
    ("unknown model", "no-such-model", say),
    ("no messages", model, "text"),
):
    try:
        client.chat.completions.create(model=model_asked, messages=words)
    except (BadRequestError, NotFoundError) as error:
        print(wrong, error.status_code, isinstance(error.body["message"], str))
"#;

/// What must come back, after the list of models.
const PYTHON_SAYS: &str = "\
chat length 5 True
stream True 5 True
text 3 5
raw 200 application/json
unknown model 404 True
no messages 400 True
";

/// One request, with as many tries as the client makes by itself.
const PYTHON_ONCE: &str = r#"
import sys
from openai import OpenAI

url, model = sys.argv[1:3]
client = OpenAI(base_url=url + "/v1", api_key="none", timeout=60)
say = [{"role": "user", "content": "Is there room?"}]
whole = client.chat.completions.create(model=model, messages=say, max_tokens=1)
print(whole.usage.completion_tokens)
"#;

/// A Python with the official client, or none, which is said.
fn python() -> Option<String> {
    let python = std::env::var("FOREBAY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_client = runs(&python, &["-c", "import openai"]);
    if !has_client {
        skipped(&format!("{python} has no package `openai`; FOREBAY_PYTHON may name one that has"));
    }
    has_client.then_some(python)
}

fn runs(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What a program prints; its talk is shown where it fails.
#[track_caller]
fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("it was there before");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} ends with {}: {talk}", output.status);
    String::from_utf8(output.stdout).expect("it prints text")
}

fn talks_to(served: &Served, models: &str) {
    if let Some(python) = python() {
        let args = ["-c", PYTHON, &served.url(), served.model()];
        assert_eq!(printed(&python, &args), format!("models {models}\n{PYTHON_SAYS}"));
    }
}

#[test]
fn the_official_python_client_talks_to_an_engine() {
    let served = Served::engine();
    talks_to(&served, served.model());
}

#[test]
fn the_official_python_client_talks_to_the_gateway_in_every_mode_that_is_asked_for() {
    for mode in ["hold", "round-robin"] {
        let Some(served) = Served::gateway(mode) else { return };
        // It has no file that names models: it asks its workers.
        talks_to(&served, served.model());
    }
}

#[test]
fn the_official_python_client_comes_back_after_a_refusal() {
    let Some(python) = python() else { return };
    for served in [Some(Served::engine()), Served::gateway("hold")].into_iter().flatten() {
        let relay = Relay::refusing_first(served.port());
        let args = ["-c", PYTHON_ONCE, &relay.url(), served.model()];
        assert_eq!(printed(&python, &args), "1\n");
        assert_eq!(relay.connections(), 2);
    }
}

fn curl_talks_to(served: &Served) {
    if !runs("curl", &["--version"]) {
        skipped("curl is not installed");
        return;
    }
    let url = format!("{}/v1/chat/completions", served.url());
    let body = format!(
        "{{\"model\":\"{}\",\"messages\":[{{\"role\":\"user\",\"content\":\"a\"}}],\
         \"max_tokens\":3,\"ignore_eos\":true,\"min_tokens\":3,\"stream\":true}}",
        served.model()
    );
    let head = "content-type: application/json";
    let post = ["-sSN", "-H", head, "-d", &body, "-w", "%{http_code} %{content_type}", &url];
    let answer = printed("curl", &post);
    // An engine that is behind puts several tokens into one piece.
    let (events, said) = answer.rsplit_once("data: [DONE]\n\n").expect("the stream has its end");
    assert!(events.starts_with("data: {"), "{events}");
    let pieces = events.matches("\"content\":\" ").count();
    assert!((1..=3).contains(&pieces), "{events}");
    assert!(said.starts_with("200 text/event-stream"), "{said}");

    // From 1,024 bytes on, some versions of curl ask for `100 Continue` before they send a body.
    let long = body.replace("\"a\"", &format!("\"{}\"", "word ".repeat(400)));
    let expect = ["-H", "expect: 100-continue", "--expect100-timeout", "60"];
    let answer = printed("curl", &[&post[..4], &[&long], &expect, &[&url]].concat());
    assert!(answer.ends_with("data: [DONE]\n\n"), "{answer}");

    for version in ["--http1.0", "--http1.1"] {
        let models = format!("{}/v1/models", served.url());
        let answer = printed("curl", &["-sSf", version, &models]);
        assert!(answer.contains("\"object\":\"list\""), "{answer}");
    }
}

#[test]
fn curl_talks_to_an_engine() {
    curl_talks_to(&Served::engine());
}

#[test]
fn curl_talks_to_the_gateway() {
    if let Some(served) = Served::gateway("hold") {
        curl_talks_to(&served);
    }
}
