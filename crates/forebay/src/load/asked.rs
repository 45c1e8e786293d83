//! Turns the arguments of `forebay load` into what they mean.

use anyhow::{Context, bail};
use forebay_lab::load::arrivals::{Prefixes, Shape};
use forebay_lab::load::{
    Ask, Http, Names, Retry, Settings, Survey, Target, Tls, Transport, Users, What, When, Workload,
    is_secret,
};
use forebay_lab::trace::synth::Description;
use forebay_lab::trace::{FACTOR_MAX, Span, TIME_MAX};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Args, Version, share};

/// How long a run lasts that nothing else ends, in seconds.
const LASTS_S: f64 = 60.0;

impl Args {
    /// What is offered.
    pub(super) fn workload(&self) -> anyhow::Result<Workload> {
        let what = match (&self.trace, &self.synth) {
            (Some(file), _) if file.as_os_str() == "-" => {
                bail!("a trace from standard input can't be read twice\nhint: write it to a file")
            }
            (Some(file), _) => What::Trace(file.clone()),
            (None, Some(name)) => What::Synth(Box::new(Description::find(name)?)),
            (None, None) => What::Shape(self.shape()),
        };
        let is_shape = matches!(what, What::Shape(_));
        if is_shape && self.rate.is_none() && self.users.is_none() {
            bail!(
                "nothing says which requests come\n\
                 hint: give one of --trace FILE, --synth NAME, --rate RATE and --users N"
            );
        }
        if !(1e-6..=FACTOR_MAX).contains(&self.scale) {
            bail!("--scale is a factor from 0.000001 to {FACTOR_MAX}\nhint: 2 is twice as fast");
        }
        let when = match (&self.rate, self.users) {
            (Some(rate), _) => When::Arrivals(rate.clone(), self.arrivals),
            (None, Some(_)) => When::Users,
            (None, None) => When::Told(self.scale),
        };
        let has_end = self.requests.is_some()
            || self.rate.as_ref().is_some_and(|rate| rate.lasts().is_some());
        let lasts_s = self.lasts.or_else(|| (is_shape && !has_end).then_some(LASTS_S));
        let leaves = match (self.cancel_share, self.cancel_after) {
            (Some(part), Some(pause)) => Some((share("--cancel-share", part)?, pause)),
            _ => None,
        };
        Ok(Workload {
            what,
            when,
            requests: self.requests,
            lasts: lasts_s.map(|seconds| span("--for", seconds)).transpose()?,
            warmup: self.warmup,
            leaves,
            names: self.names()?,
            seed: self.seed,
        })
    }

    fn shape(&self) -> Shape {
        let prefixes = self.prefixes.zip(self.prefix_tokens);
        Shape {
            prompt: self.prompt_tokens.clone(),
            output: self.output_tokens.clone(),
            prefixes: prefixes.map(|(count, tokens)| Prefixes { count, tokens }),
        }
    }

    fn names(&self) -> anyhow::Result<Names> {
        let tenants = self.tenant_key.iter().map(|pair| {
            let (tenant, variable) = pair.split_once('=').with_context(|| {
                format!("--tenant-key {pair} names no variable\nhint: write TENANT=VARIABLE")
            })?;
            Ok((tenant.to_owned(), [bearer(variable)?].into_iter().collect()))
        });
        let tenants = tenants.collect::<anyhow::Result<Vec<(String, HeaderMap)>>>()?;
        let tenant = self.tenant_header.as_deref().map(header_name).transpose()?;
        Ok(Names { class: Some(header_name(&self.class_header)?), tenant, tenants })
    }

    /// How it is sent.
    pub(super) fn settings(&self, workload: &Workload) -> anyhow::Result<Settings> {
        let form = self.endpoint.form();
        let targets = self.url.iter().map(|url| Target::below(url, form));
        let targets = targets.collect::<Result<Vec<_>, _>>()?;
        let mut headers = HeaderMap::new();
        for header in &self.header {
            let (name, value) = header.split_once(':').with_context(|| {
                "--header is no header\nhint: write it as 'name: value'".to_owned()
            })?;
            let name = header_name(name.trim())?;
            let mut value = HeaderValue::from_str(value.trim())
                .with_context(|| format!("the value of `{name}` can't be sent"))?;
            value.set_sensitive(is_secret(&name));
            headers.append(name, value);
        }
        headers.extend(self.key_env.as_deref().map(bearer).transpose()?);
        let http = match self.http {
            Version::One => Http::One,
            Version::Two => Http::Two,
        };
        let tls = match &self.ca_file {
            _ if !self.url.iter().any(|url| url.starts_with("https://")) => None,
            _ if self.insecure => Some(Tls::trusting_anyone(http)),
            file => Some(Tls::trusting(file.as_deref(), http)?),
        };
        if self.in_flight_max == 0 {
            bail!("--in-flight-max 0 sends nothing\nhint: 4096 is the default");
        }
        let users =
            self.users.map(|count| Users { count, think: self.think, until: workload.lasts });
        let budget = self.retry_budget.map(|part| share("--retry-budget", part)).transpose()?;
        Ok(Settings {
            transport: Transport { http, tls },
            headers,
            reuse: !self.no_reuse,
            in_flight_max: self.in_flight_max,
            patience: span("--timeout", self.timeout)?,
            retry: Retry { client: self.retry, budget },
            users,
            lag_max: span("--lag-ms-max", self.lag_ms_max / 1e3)?,
            seed: self.seed,
            ..Settings::for_targets(targets)
        })
    }

    /// What bodies ask for.
    pub(super) fn ask(&self, model: &str) -> anyhow::Result<Ask> {
        let extra = self.extra_body.as_deref().map(Ask::read_extra).transpose()?;
        Ok(Ask {
            is_plain: self.plain,
            bounds_completion: self.max_completion_tokens,
            extra: extra.unwrap_or_default(),
            ..Ask::new(model, self.endpoint.form(), !self.no_stream)
        })
    }

    /// What is offered, in words.
    pub(super) fn told(&self, survey: &Survey) -> String {
        let name = |file: &std::path::Path| {
            file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        let what = match (&self.trace, &self.synth) {
            (Some(file), _) => format!("trace {}", name(file)),
            (None, Some(described)) => format!("synth {}", name(described.as_ref())),
            (None, None) => "drawn lengths".to_owned(),
        };
        let when = match (&self.rate, self.users) {
            (Some(rate), _) => format!(" at {rate} a second, {}", self.arrivals),
            (None, Some(users)) => format!(", {users} users who think for {} s", self.think),
            (None, None) if self.scale.to_bits() != 1.0_f64.to_bits() => {
                format!(", {} times as fast", self.scale)
            }
            (None, None) => String::new(),
        };
        let length = survey.requests.zip(survey.last).map_or_else(String::new, |(count, last)| {
            format!(", {count} requests over {:.1} s", last.as_secs_f64())
        });
        format!("{what}{when}{length}")
    }
}

/// The header with the key that this variable holds.
fn bearer(variable: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let hint = "set it to the key, without `Bearer`";
    let Ok(key) = std::env::var(variable) else {
        bail!("the environment variable {variable} is not set\nhint: {hint}");
    };
    // What is wrong with it is not shown: it may be the key.
    let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {}", key.trim())) else {
        bail!("the environment variable {variable} holds no key\nhint: {hint}");
    };
    value.set_sensitive(true);
    Ok((AUTHORIZATION, value))
}

fn header_name(name: &str) -> anyhow::Result<HeaderName> {
    name.parse().with_context(|| {
        format!("`{name}` is no name of a header\nhint: letters, digits and dashes")
    })
}

fn span(option: &str, seconds: f64) -> anyhow::Result<Span> {
    let most = TIME_MAX.as_secs_f64();
    if !(seconds > 0.0 && seconds <= most) {
        bail!("{option} lies above 0 and at most at {most} seconds, not at {seconds}");
    }
    Ok(Span::secs_f64(seconds))
}
