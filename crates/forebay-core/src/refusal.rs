//! Why a request was not served: one closed enum, one HTTP status, one label, one meaning each.

use std::fmt;

use crate::request::ClassId;
use crate::units::Span;

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalReason {
    /// As many requests wait as its class, or the pool, lets wait.
    QueueFull,
    /// Its class sheds, and the predicted wait is above the class's limit.
    Shed,
    /// It waited as long as its class lets it.
    WaitedTooLong,
    /// Its tenant sends more requests a second than agreed.
    TenantRate,
    /// Its tenant sends more tokens a second than agreed.
    TenantTokens,
    /// Its tenant has as many requests open as agreed.
    TenantConcurrency,
    /// Every worker is above its mode's own threshold, or would not take the request, and the mode
    /// does not hold requests.
    WorkersBusy,
    /// It can never fit any worker.
    TooLong,
    /// There is no worker to run it, and its class doesn't wait for one.
    NoWorker,
    /// The pool is being shut down.
    Draining,
    /// A worker broke, and no retry was allowed.
    UpstreamFailed,
    /// A worker fell silent.
    UpstreamTimeout,
    /// The client presented no valid key. Raised by the gateway before the core is asked.
    Unauthenticated,
    /// The key is valid but not for this. Raised by the gateway before the core is asked.
    Forbidden,
    /// A bound of the gateway itself is reached: connections' bodies, or streams. Raised by the
    /// gateway before the core is asked, as all that follow.
    GatewayFull,
    /// It is no request of its endpoint: no JSON object, or no model where one is needed.
    InvalidRequest,
    /// No pool serves the model it asks for.
    UnknownModel,
    /// There is no such endpoint, or not for this method.
    UnknownEndpoint,
    /// Its body is longer than the limit.
    BodyTooLarge,
    /// Its body did not come within the time for it.
    BodyTimeout,
}

impl RefusalReason {
    /// All reasons, in the order of the reference.
    pub const ALL: [Self; 20] = [
        Self::QueueFull,
        Self::Shed,
        Self::WaitedTooLong,
        Self::TenantRate,
        Self::TenantTokens,
        Self::TenantConcurrency,
        Self::WorkersBusy,
        Self::TooLong,
        Self::NoWorker,
        Self::Draining,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::UpstreamFailed,
        Self::UpstreamTimeout,
        Self::GatewayFull,
        Self::InvalidRequest,
        Self::UnknownModel,
        Self::UnknownEndpoint,
        Self::BodyTooLarge,
        Self::BodyTimeout,
    ];

    /// The stable code: metric label, `code` of the error body, key of every table.
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Shed => "shed",
            Self::WaitedTooLong => "waited_too_long",
            Self::TenantRate => "tenant_rate",
            Self::TenantTokens => "tenant_tokens",
            Self::TenantConcurrency => "tenant_concurrency",
            Self::WorkersBusy => "workers_busy",
            Self::TooLong => "too_long",
            Self::NoWorker => "no_worker",
            Self::Draining => "draining",
            Self::UpstreamFailed => "upstream_failed",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::GatewayFull => "gateway_full",
            Self::InvalidRequest => "invalid_request",
            Self::UnknownModel => "unknown_model",
            Self::UnknownEndpoint => "unknown_endpoint",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyTimeout => "body_timeout",
        }
    }

    /// The HTTP status it is answered with.
    pub const fn status(self) -> u16 {
        match self {
            Self::QueueFull
            | Self::Shed
            | Self::WaitedTooLong
            | Self::WorkersBusy
            | Self::NoWorker
            | Self::Draining
            | Self::GatewayFull => 503,
            Self::TenantRate | Self::TenantTokens | Self::TenantConcurrency => 429,
            Self::TooLong | Self::InvalidRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::UnknownModel | Self::UnknownEndpoint => 404,
            Self::BodyTimeout => 408,
            Self::BodyTooLarge => 413,
            Self::UpstreamFailed => 502,
            Self::UpstreamTimeout => 504,
        }
    }

    /// Whether the request failed at a worker rather than being refused at the door.
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::UpstreamFailed | Self::UpstreamTimeout)
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// A refusal with what its client, and the operator, may know of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// The class whose policy refused.
    pub class: ClassId,
    /// When a retry would be served: whole seconds, at least 1, at most the cap. `None` where a
    /// retry is no use.
    pub retry_after: Option<Span>,
    /// The wait that was predicted, before the cap.
    pub predicted_wait: Option<Span>,
    /// How long it had waited.
    pub waited: Span,
    /// The limit that was hit, in the unit of the reason: requests, milliseconds, tokens, or 0.
    pub limit: u64,
    /// The honest Retry-After is above the cap: overload is sustained, and the figure sent is only
    /// the cap.
    pub sustained: bool,
}
