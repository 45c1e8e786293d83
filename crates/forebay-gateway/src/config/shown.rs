//! Shows what a configuration means, every default filled in, as a file that means the same.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use forebay_core::{Overload, Span, TenantSettings};
use forebay_service::{Class, Tenant};

use super::defaults::ANYONE;
use super::otel::PROTOCOL;
use super::{Access, ApiKey, Config, Listen, Otel, Pool};

impl Config {
    /// What is meant, as a file with every default filled in. Keys are cut short and secrets left
    /// out; without any the text reads back as the same configuration.
    pub fn shown(&self) -> String {
        let mut page = Page(String::new());
        self.show(&mut page).expect("a text can always be longer");
        page.0.trim_start().to_owned()
    }

    fn show(&self, page: &mut Page) -> fmt::Result {
        page.listen(&self.listen, self.anonymous.is_some() && !self.admin_is_open)?;
        self.pools.iter().try_for_each(|pool| page.pool(pool))?;
        self.keys.iter().try_for_each(|key| page.key(self, key))?;
        self.service.classes.iter().try_for_each(|class| page.class(self, class))?;
        self.service.tenants.iter().try_for_each(|tenant| page.tenant(self, tenant))?;
        page.table("[tenant_default]")?;
        page.entitled(&self.service.tenant_default)?;
        page.gate_and_limits(self)?;
        page.times(self)?;
        page.files(self)
    }
}

/// The text so far.
struct Page(String);

impl Page {
    fn table(&mut self, title: &str) -> fmt::Result {
        write!(self.0, "\n{title}\n")
    }

    fn number(&mut self, key: &str, value: impl fmt::Display) -> fmt::Result {
        writeln!(self.0, "{key} = {value}")
    }

    fn number_if(&mut self, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
        value.map_or(Ok(()), |value| self.number(key, value))
    }

    fn millis(&mut self, key: &str, value: Duration) -> fmt::Result {
        self.number(key, value.as_millis())
    }

    fn text(&mut self, key: &str, value: &str) -> fmt::Result {
        writeln!(self.0, "{key} = {}", quoted(value))
    }

    fn path_if(&mut self, key: &str, path: Option<&Path>) -> fmt::Result {
        path.map_or(Ok(()), |path| self.text(key, &path.to_string_lossy()))
    }

    fn texts(&mut self, key: &str, values: impl Iterator<Item = String>) -> fmt::Result {
        let values: Vec<String> = values.map(|value| quoted(&value)).collect();
        writeln!(self.0, "{key} = [{}]", values.join(", "))
    }

    fn listen(&mut self, listen: &Listen, anyone: bool) -> fmt::Result {
        self.table("[listen]")?;
        self.text("address", &listen.address.to_string())?;
        if anyone {
            self.text("without_keys", ANYONE)?;
        }
        self.number("threads", listen.threads.unwrap_or(0))?;
        self.number("connections_max", listen.connections_max)?;
        self.number_if("connections_per_peer_max", listen.connections_per_peer_max)?;
        self.number("headers_bytes_max", listen.headers_bytes_max)?;
        self.number("headers_max", listen.headers_max)?;
        self.millis("header_ms_max", listen.header_time_max)?;
        self.number("body_bytes_max", listen.body_bytes_max)?;
        self.millis("body_ms_max", listen.body_time_max)?;
        self.number("bodies_bytes_max", listen.bodies_bytes_max)?;
        self.millis("idle_ms_max", listen.idle_time_max)?;
        self.number("streams_max", listen.streams_max)?;
        let Some(tls) = &listen.tls else { return Ok(()) };
        self.table("[listen.tls]")?;
        self.path_if("cert", Some(&tls.cert))?;
        self.path_if("key", Some(&tls.key))?;
        self.path_if("client_ca", tls.client_ca.as_deref())
    }

    fn pool(&mut self, pool: &Pool) -> fmt::Result {
        self.table("[[pool]]")?;
        self.text("name", &pool.name)?;
        self.texts("models", pool.models.iter().cloned())?;
        self.text("mode", pool.mode.name())?;
        self.text("knowledge", "own")?;
        self.texts("worker", pool.workers.iter().map(ToString::to_string))?;
        if !pool.dns.is_empty() {
            self.texts("dns", pool.dns.iter().map(ToString::to_string))?;
        }
        self.millis("dns_interval_ms", pool.dns_interval)?;
        self.number_if("block_size", pool.block_size)?;
        self.number("bytes_per_token", pool.bytes_per_token)?;
        self.number_if("expected_output", pool.expected_output.map(|tokens| tokens.0))?;
        self.number_if("kv_capacity_tokens", pool.profile.kv_capacity.map(|tokens| tokens.0))?;
        self.number("batch_tokens_max", pool.profile.batch_tokens_max.0)?;
        self.number("seqs_max", pool.profile.seqs_max)?;
        if pool.ask_usage {
            self.number("ask_usage", true)?;
        }
        for name in pool.headers.keys() {
            writeln!(self.0, "# sent along: {name}")?;
        }
        let tls = &pool.tls;
        if *tls == super::PoolTls::default() {
            return Ok(());
        }
        self.table("[pool.tls]")?;
        self.path_if("ca", tls.ca.as_deref())?;
        self.path_if("cert", tls.identity.as_ref().map(|(cert, _)| cert.as_path()))?;
        self.path_if("key", tls.identity.as_ref().map(|(_, key)| key.as_path()))?;
        tls.server_name.as_ref().map_or(Ok(()), |name| self.text("server_name", name))
    }

    fn key(&mut self, config: &Config, key: &ApiKey) -> fmt::Result {
        self.table("[[key]]")?;
        let [a, b, c, d, ..] = key.sha256;
        self.text("sha256", &format!("{a:02x}{b:02x}{c:02x}{d:02x}…"))?;
        self.text("tenant", &config.service.tenants[key.tenant.0 as usize].name)?;
        if let Some(class) = key.class {
            self.text("class", &config.service.classes[usize::from(class.0)].name)?;
        }
        if let Some(models) = &key.models {
            self.texts("models", models.iter().cloned())?;
        }
        self.number("admin", key.admin)
    }

    fn class(&mut self, config: &Config, class: &Class) -> fmt::Result {
        let settings = &class.settings;
        self.table("[[class]]")?;
        self.text("name", &class.name)?;
        match settings.overload {
            Overload::Queue => self.text("overload", "queue")?,
            Overload::Shed => self.text("overload", "shed")?,
            Overload::Spill(pool) => {
                self.text("overload", "spill")?;
                self.text("spill_to", &config.pools[usize::from(pool.0)].name)?;
            }
        }
        let wait = settings.wait_max.map(Span::as_millis_f64);
        self.number_if("wait_ms_max", wait)?;
        self.number("queue_len_max", settings.queue_len_max)?;
        self.number("share", settings.share)?;
        self.number_if("reject_share_max", class.reject_share_max)?;
        self.number("ageing", settings.ageing)?;
        self.number("promise", settings.promise)?;
        self.number("traffic", class.traffic)
    }

    fn tenant(&mut self, config: &Config, tenant: &Tenant) -> fmt::Result {
        self.table("[[tenant]]")?;
        self.text("name", &tenant.name)?;
        if let Some(class) = tenant.class {
            self.text("class", &config.service.classes[class].name)?;
        }
        self.entitled(&tenant.settings)?;
        self.number("traffic", tenant.traffic)
    }

    fn entitled(&mut self, settings: &TenantSettings) -> fmt::Result {
        self.number("weight", settings.weight)?;
        self.number_if("requests_per_s_max", settings.rate.map(|rate| rate.per_second))?;
        self.number_if("requests_burst_max", settings.rate.map(|rate| rate.burst))?;
        self.number_if("tokens_per_s_max", settings.tokens.map(|rate| rate.per_second))?;
        self.number_if("tokens_burst_max", settings.tokens.map(|rate| rate.burst))?;
        self.number_if("concurrency_max", settings.concurrency_max)
    }

    fn gate_and_limits(&mut self, config: &Config) -> fmt::Result {
        let (gate, limits) = (&config.service.gate, &config.service.limits);
        self.table("[gate]")?;
        self.number("fraction_start", gate.fraction_start)?;
        self.number("fraction_min", gate.fraction_min)?;
        self.number("fraction_max", gate.fraction_max)?;
        self.number("backlog_steps_max", gate.backlog_steps_max)?;
        self.table("[limits]")?;
        self.number("queue_len_max", limits.queue_len_max)?;
        self.number("running_max", limits.running_max)?;
        self.number("workers_max", limits.workers_max)?;
        self.number("tenants_max", limits.tenants_max)?;
        self.number("means_max", limits.means_max)?;
        self.number("promises_max", limits.promises_max)?;
        self.number("attempts_max", limits.attempts_max)?;
        self.number("retry_after_s_max", limits.retry_after_max.as_secs_f64())?;
        self.number("mark_ms", limits.mark.as_millis_f64())
    }

    fn times(&mut self, config: &Config) -> fmt::Result {
        self.table("[timeouts]")?;
        self.millis("connect_ms", config.timeouts.connect)?;
        self.millis("first_byte_ms_max", config.timeouts.first_byte_max.unwrap_or_default())?;
        self.millis("idle_ms_max", config.timeouts.idle_max)?;
        self.millis("total_ms_max", config.timeouts.total_max)?;
        self.millis("drain_ms_max", config.timeouts.drain_max)?;
        self.table("[retries]")?;
        self.number("budget_share", config.retries.budget_share)?;
        self.number("budget_floor", config.retries.budget_floor)?;
        self.table("[health]")?;
        self.text("path", &config.health.path)?;
        self.millis("interval_ms", config.health.interval)?;
        self.millis("timeout_ms", config.health.timeout)?;
        self.number("failures", config.health.failures)?;
        self.number("successes", config.health.successes)?;
        self.table("[scrape]")?;
        self.text("path", &config.scrape.path)?;
        self.millis("interval_ms", config.scrape.interval)?;
        self.millis("stale_ms_max", config.scrape.stale_max)
    }

    fn files(&mut self, config: &Config) -> fmt::Result {
        if let Some(interval) = config.progress {
            self.table("[progress]")?;
            self.millis("interval_ms", interval)?;
        }
        if let Some(record) = &config.record {
            self.table("[record]")?;
            self.path_if("dir", Some(&record.dir))?;
            self.number("bytes_max", record.bytes_max)?;
        }
        self.table("[log]")?;
        self.text("access", if config.log.access == Access::Json { "json" } else { "off" })?;
        self.path_if("file", config.log.file.as_deref())?;
        config.otel.as_ref().map_or(Ok(()), |otel| self.otel(otel))
    }

    fn otel(&mut self, otel: &Otel) -> fmt::Result {
        self.table("[otel]")?;
        self.text("endpoint", &otel.endpoint.to_string())?;
        self.text("protocol", PROTOCOL)?;
        self.path_if("ca", otel.ca.as_deref())?;
        for name in otel.headers.keys() {
            writeln!(self.0, "# sent along: {name}")?;
        }
        self.text("service_name", &otel.service_name)?;
        self.number("sample_ratio", otel.sample_ratio)?;
        self.number("queue_len_max", otel.queue_len_max)?;
        self.number("batch_len_max", otel.batch_len_max)?;
        self.millis("interval_ms", otel.interval)?;
        self.millis("timeout_ms", otel.timeout)
    }
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
