//! Answers a worker's requests, path by path.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use forebay_core::mixed;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::mpsc;

use super::ask::Ask;
use super::door::Door;
use super::fault::Fault;
use super::generate;
use super::life::Order;
use super::problem::Problem;
use super::prompt;
use super::stream::Stream;
use super::tokenizer::{Spellings, pieces};
use super::worker::Shared;

/// A whole answer or a stream.
pub(super) type Answer = Response<Either<Full<Bytes>, Stream>>;

/// What all connections of a worker's life share.
pub(super) struct Service {
    /// The engine.
    pub(super) worker: Shared,
    /// The bound of bodies.
    pub(super) door: Door,
    /// Its name among the workers.
    pub(super) nth: usize,
    /// Where each worker takes orders.
    pub(super) posts: Vec<mpsc::Sender<Order>>,
    /// The served model's name.
    pub(super) model: Rc<str>,
    /// The same as JSON.
    pub(super) model_json: Rc<str>,
    /// Names the version and configuration.
    pub(super) fingerprint: Rc<str>,
    /// The longest prompt and answer together, in tokens.
    pub(super) tokens_max: u32,
    /// Tokens of a block.
    pub(super) block_size: u32,
    /// Whether KV events are sent, which need the tokens of prompts.
    pub(super) has_events: bool,
    /// Seed of the answers.
    pub(super) seed: u64,
    /// Start of this life, in seconds since the epoch of Unix.
    pub(super) created: u64,
    /// Requests so far, for their names.
    pub(super) count: std::cell::Cell<u64>,
    /// Spellings that were asked for.
    pub(super) spellings: std::cell::RefCell<Spellings>,
}

/// The paths that answer, each with its method.
const PATHS: [(&str, Method); 14] = [
    ("/health", Method::GET),
    ("/ping", Method::GET),
    ("/version", Method::GET),
    ("/load", Method::GET),
    ("/metrics", Method::GET),
    ("/v1/models", Method::GET),
    ("/v1/chat/completions", Method::POST),
    ("/v1/completions", Method::POST),
    ("/v1/embeddings", Method::POST),
    ("/tokenize", Method::POST),
    ("/detokenize", Method::POST),
    ("/reset_prefix_cache", Method::POST),
    ("/faults", Method::POST),
    ("/ping", Method::POST),
];

impl Service {
    /// Answers a request.
    pub(super) async fn answer(
        self: Rc<Self>,
        request: Request<Incoming>,
    ) -> Result<Answer, Infallible> {
        let path = PATHS.iter().find(|(path, _)| *path == request.uri().path());
        let handler = path.map_or("none", |(path, _)| path);
        let method = if request.method() == Method::POST { "POST" } else { "GET" };
        let answer = self.dispatch(handler, request).await;
        let answer = answer.unwrap_or_else(|problem| json_answer(problem.status, problem.body()));
        let is_counted = !["/health", "/ping", "/version", "/load", "/metrics"].contains(&handler);
        if is_counted {
            let status = answer.status().as_u16();
            self.worker.borrow_mut().metrics.answered(handler, method, status);
        }
        Ok(answer)
    }

    async fn dispatch(&self, handler: &str, request: Request<Incoming>) -> Result<Answer, Problem> {
        if handler == "none" {
            return Ok(json_answer(StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#.to_owned()));
        }
        let mut allowed = PATHS.iter().filter(|(path, _)| *path == handler);
        if !allowed.clone().any(|(_, method)| method == request.method()) {
            let detail = r#"{"detail":"Method Not Allowed"}"#.to_owned();
            let mut answer = json_answer(StatusCode::METHOD_NOT_ALLOWED, detail);
            let is_get = allowed.next().is_some_and(|(_, method)| method == Method::GET);
            let allow = HeaderValue::from_static(if is_get { "GET" } else { "POST" });
            answer.headers_mut().insert(header::ALLOW, allow);
            return Ok(answer);
        }
        match handler {
            "/health" | "/ping" => Ok(self.health()),
            "/version" => Ok(ok(r#"{"version":"0.32.0"}"#.to_owned())),
            "/load" => Ok(ok(format!("{{\"server_load\":{}}}", self.worker.borrow().load()))),
            "/metrics" => Ok(self.metrics()),
            "/v1/models" => Ok(ok(self.models())),
            "/reset_prefix_cache" => {
                let cleared = self.worker.borrow_mut().clear_cache();
                Ok(ok(format!("{{\"success\":{cleared}}}")))
            }
            "/faults" => self.faults(request).await,
            "/tokenize" => {
                let ask = self.ask(request).await?;
                self.tokenize(&ask).map(ok)
            }
            "/detokenize" => {
                let ask = self.ask(request).await?;
                self.detokenize(&ask).map(ok)
            }
            _ => {
                let name = self.name(&request);
                let ask = self.ask(request).await?;
                generate::answer(self, handler, &ask, &name).await
            }
        }
    }

    async fn ask(&self, request: Request<Incoming>) -> Result<Ask, Problem> {
        let ask = self.door.read(request.into_body(), Ask::read).await?;
        ask.check_model(&self.model)?;
        Ok(ask)
    }

    /// The name of a request: the client's own, or a made-up one.
    fn name(&self, request: &Request<Incoming>) -> String {
        let count = self.count.get() + 1;
        self.count.set(count);
        let own = request.headers().get("x-request-id").and_then(|name| name.to_str().ok());
        let is_plain = |name: &&str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
            name.len() <= 128 && name.bytes().all(plain) && !name.is_empty()
        };
        own.filter(is_plain).map_or_else(
            || {
                let start = mixed(self.created ^ mixed(self.seed ^ mixed(self.nth as u64)));
                format!("{:016x}", mixed(start.wrapping_add(count)))
            },
            str::to_owned,
        )
    }

    fn health(&self) -> Answer {
        let is_dead = self.worker.borrow().dead().is_some();
        let status = if is_dead { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        respond(status, None, Bytes::new())
    }

    fn metrics(&self) -> Answer {
        // Other clients are never that late, but figures are as of now.
        let mut worker = self.worker.borrow_mut();
        worker.advance();
        let text = worker.metrics.show(worker.gauges());
        let kind = "text/plain; version=1.0.0; charset=utf-8";
        respond(StatusCode::OK, Some(kind), text.into())
    }

    fn models(&self) -> String {
        let (model, created) = (&self.model_json, now());
        let permission = mixed(created ^ self.seed);
        format!(
            "{{\"object\":\"list\",\"data\":[{{\"id\":{model},\"object\":\"model\",\"created\":\
             {created},\"owned_by\":\"vllm\",\"root\":{model},\"parent\":null,\"max_model_len\":{},\
             \"permission\":[{{\"id\":\"modelperm-{permission:016x}\",\"object\":\
             \"model_permission\",\"created\":{created},\"allow_create_engine\":false,\
             \"allow_sampling\":true,\"allow_logprobs\":true,\"allow_search_indices\":false,\
             \"allow_view\":true,\"allow_fine_tuning\":false,\"organization\":\"*\",\"group\":null,\
             \"is_blocking\":false}}]}}]}}",
            self.tokens_max
        )
    }

    fn tokenize(&self, ask: &Ask) -> Result<String, Problem> {
        let text = ask.text("prompt")?;
        let tokens = match text {
            Some("") => Vec::new(),
            Some(_) => prompt::prompts(ask, "prompt")?.remove(0),
            None => prompt::chat(ask)?,
        };
        let (count, tokens_max) = (tokens.len(), self.tokens_max);
        let mut spellings = self.spellings.borrow_mut();
        spellings.learn(text.unwrap_or_default());
        let strings = match text {
            _ if !ask.flag("return_token_strs")? => json!(null),
            Some(text) => pieces(text).map(|piece| piece.replace(' ', "Ġ")).collect(),
            None => tokens.iter().map(|&it| spellings.spell(it).replace(' ', "Ġ")).collect(),
        };
        let tokens = json!(tokens);
        Ok(format!(
            "{{\"count\":{count},\"max_model_len\":{tokens_max},\"tokens\":{tokens},\
             \"token_strs\":{strings}}}"
        ))
    }

    fn detokenize(&self, ask: &Ask) -> Result<String, Problem> {
        let tokens = ask.must("tokens")?;
        let Some(tokens) = tokens.as_array() else {
            let message = "Input should be a valid list";
            return Err(Problem::schema(
                "list_type",
                "tokens",
                message,
                &super::ask::python(tokens),
            ));
        };
        let spellings = self.spellings.borrow();
        let tokens = prompt::numbers(tokens, "tokens")?;
        let text: String = tokens.iter().map(|&token| spellings.spell(token)).collect();
        Ok(format!("{{\"prompt\":{}}}", json!(text)))
    }

    /// Takes a fault for this worker, or for another one by its `worker`.
    async fn faults(&self, request: Request<Incoming>) -> Result<Answer, Problem> {
        let wrong = |what: String| Problem::bad("body", what);
        let read = self.door.read(request.into_body(), |body| {
            let mut ask = serde_json::from_slice::<serde_json::Map<_, _>>(body)
                .map_err(|error| wrong(error.to_string()))?;
            let worker = ask.remove("worker").and_then(|worker| worker.as_u64());
            let rest = json!(ask).to_string();
            let fault = Fault::read(rest.as_bytes()).map_err(wrong)?;
            Ok((worker.map_or(self.nth, |worker| worker as usize), fault))
        });
        let (worker, fault) = read.await?;
        let post = self.posts.get(worker);
        let post = post.ok_or_else(|| wrong(format!("there is no worker {worker}")))?.clone();
        if worker == self.nth && fault.ends_life() {
            // The answer leaves before the life does.
            tokio::task::spawn_local(async move {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                let _ = post.send(Order::Fault(fault, None)).await;
            });
        } else if worker == self.nth {
            self.worker.borrow_mut().take_fault(&fault);
        } else if post.try_send(Order::Fault(fault, None)).is_err() {
            return Err(Problem::busy());
        }
        Ok(ok(r#"{"success":true}"#.to_owned()))
    }
}

/// Seconds since the epoch of Unix.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A good answer of JSON.
pub(super) fn ok(json: String) -> Answer {
    json_answer(StatusCode::OK, json)
}

fn json_answer(status: StatusCode, json: String) -> Answer {
    respond(status, Some("application/json"), json.into())
}

fn respond(status: StatusCode, kind: Option<&'static str>, body: Bytes) -> Answer {
    let length = HeaderValue::from(body.len());
    let mut answer = framed(status, kind, Either::Left(Full::new(body)));
    answer.headers_mut().insert(header::CONTENT_LENGTH, length);
    answer
}

/// A streamed answer.
pub(super) fn streamed(stream: Stream) -> Answer {
    let kind = "text/event-stream; charset=utf-8";
    framed(StatusCode::OK, Some(kind), Either::Right(stream))
}

/// An answer with the headers of uvicorn.
fn framed(
    status: StatusCode,
    kind: Option<&'static str>,
    body: Either<Full<Bytes>, Stream>,
) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("uvicorn"));
    if let Some(kind) = kind {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    answer
}
