//! Answers with a refusal: OpenAI's error body with a stable code, and honest advice when to come
//! back. Nothing in it names a worker, a path, a flag or a version.

use std::fmt::Write as _;

use bytes::Bytes;
use forebay_core::{Refusal, RefusalReason, Span};
use forebay_wire::openai::Endpoint;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, Response, StatusCode};

use crate::request::ReplyBody;
use crate::tickets;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const TICKET: HeaderName = HeaderName::from_static(tickets::HEADER);

/// What a client is told that is not served.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    /// Why.
    pub(crate) reason: RefusalReason,
    /// In one sentence, where there is more to say than the reason does.
    pub(crate) detail: Option<String>,
    /// The class whose policy refused, by name.
    pub(crate) class: Option<String>,
    /// The limit that was hit.
    pub(crate) limit: Option<u64>,
    /// When a retry would be served.
    pub(crate) retry_after: Option<Span>,
    /// The wait that was predicted.
    pub(crate) predicted_wait: Option<Span>,
    /// The Retry-After is only the cap.
    pub(crate) sustained: bool,
    /// The place that is kept.
    pub(crate) ticket: Option<String>,
}

impl Denial {
    /// A denial that needs no more words than its reason has.
    pub(crate) fn plain(reason: RefusalReason) -> Self {
        Self {
            reason,
            detail: None,
            class: None,
            limit: None,
            retry_after: None,
            predicted_wait: None,
            sustained: false,
            ticket: None,
        }
    }

    /// With a sentence of its own.
    pub(crate) fn because(reason: RefusalReason, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..Self::plain(reason) }
    }

    /// What the core refused.
    pub(crate) fn of(refusal: &Refusal, class: Option<String>) -> Self {
        Self {
            reason: refusal.reason,
            detail: None,
            class,
            limit: Some(refusal.limit).filter(|limit| *limit > 0),
            retry_after: refusal.retry_after,
            predicted_wait: refusal.predicted_wait,
            sustained: refusal.sustained,
            ticket: None,
        }
    }

    /// The whole answer.
    pub(crate) fn response(&self, endpoint: Option<Endpoint>) -> Response<ReplyBody> {
        let body = ReplyBody::whole(Bytes::from(self.body(endpoint)));
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(self.reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.reason == RefusalReason::Unauthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(secs) = self.retry_after_secs() {
            // One official client reads the second header first: both say the same.
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
            headers.insert(RETRY_AFTER_MS, HeaderValue::from(secs * 1_000));
        }
        if let Some(Ok(ticket)) = self.ticket.as_deref().map(HeaderValue::from_str) {
            headers.insert(TICKET, ticket);
        }
        response
    }

    /// Whole seconds until a retry would be served, at least 1.
    pub(crate) fn retry_after_secs(&self) -> Option<u64> {
        self.retry_after.map(|span| span.0.div_ceil(1_000_000_000).max(1))
    }

    /// The body, in the form of the endpoint's own errors.
    pub(crate) fn body(&self, endpoint: Option<Endpoint>) -> String {
        let message = self.message();
        let mut error = serde_json::Map::new();
        let mut put = |key: &str, value: serde_json::Value| error.insert(key.to_owned(), value);
        put("message", message.into());
        put("type", self.kind().into());
        put("param", serde_json::Value::Null);
        put("code", self.reason.label().into());
        if let Some(class) = &self.class {
            put("class", class.as_str().into());
        }
        if let Some(limit) = self.limit {
            put("limit", limit.into());
        }
        if let Some(wait) = self.predicted_wait {
            let seconds = (wait.as_secs_f64() * 1_000.0).round() / 1_000.0;
            put("estimated_wait_s", seconds.into());
        }
        let anthropic = endpoint == Some(Endpoint::Messages);
        let body = if anthropic {
            serde_json::json!({ "type": "error", "error": error })
        } else {
            serde_json::json!({ "error": error })
        };
        body.to_string()
    }

    /// The kind of error, in OpenAI's words.
    fn kind(&self) -> &'static str {
        match self.reason {
            RefusalReason::Unauthenticated => "authentication_error",
            RefusalReason::Forbidden => "permission_error",
            RefusalReason::UnknownModel | RefusalReason::UnknownEndpoint => "not_found_error",
            RefusalReason::UpstreamFailed | RefusalReason::UpstreamTimeout => "upstream_error",
            RefusalReason::TooLong
            | RefusalReason::InvalidRequest
            | RefusalReason::BodyTooLarge
            | RefusalReason::BodyTimeout => "invalid_request_error",
            RefusalReason::TenantRate
            | RefusalReason::TenantTokens
            | RefusalReason::TenantConcurrency => "rate_limit_error",
            RefusalReason::QueueFull
            | RefusalReason::Shed
            | RefusalReason::WaitedTooLong
            | RefusalReason::WorkersBusy
            | RefusalReason::NoWorker
            | RefusalReason::Draining
            | RefusalReason::GatewayFull => "resource_exhausted",
        }
    }

    fn message(&self) -> String {
        let mut message = match &self.detail {
            Some(detail) => detail.clone(),
            None => self.sentence().to_owned(),
        };
        if let Some(secs) = self.retry_after_secs() {
            let told = if self.sustained {
                write!(message, " Overload is sustained; do not come back before {secs} s.")
            } else {
                write!(message, " Come back in {secs} s.")
            };
            debug_assert!(told.is_ok(), "a string takes anything");
        }
        message
    }

    /// What the reason means to a client.
    fn sentence(&self) -> &'static str {
        match self.reason {
            RefusalReason::QueueFull => "The queue is full.",
            RefusalReason::Shed => "The wait would be longer than this class accepts.",
            RefusalReason::WaitedTooLong => "The request waited as long as its class accepts.",
            RefusalReason::TenantRate => "More requests a second than agreed.",
            RefusalReason::TenantTokens => "More prompt tokens a second than agreed.",
            RefusalReason::TenantConcurrency => "More requests at once than agreed.",
            RefusalReason::WorkersBusy => "Everything is busy.",
            RefusalReason::TooLong => "The prompt is longer than this model can hold.",
            RefusalReason::NoWorker => "The model is not available at the moment.",
            RefusalReason::Draining => "The service is being shut down.",
            RefusalReason::Unauthenticated => "No valid API key was presented.",
            RefusalReason::Forbidden => "This API key is not for this.",
            RefusalReason::UpstreamFailed => "The model failed while it worked on the request.",
            RefusalReason::UpstreamTimeout => "The model did not answer in time.",
            RefusalReason::GatewayFull => "The gateway holds as many requests as it may.",
            RefusalReason::InvalidRequest => "The body is no request of this endpoint.",
            RefusalReason::UnknownModel => "The model does not exist.",
            RefusalReason::UnknownEndpoint => "There is no such endpoint.",
            RefusalReason::BodyTooLarge => "The body is too large.",
            RefusalReason::BodyTimeout => "The body did not come in time.",
        }
    }
}
