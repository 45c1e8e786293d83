//! Compares a configuration with the one that runs, and fits it to what is running.

use std::collections::BTreeMap;

use forebay_core::{ClassId, TenantId};
use forebay_service::COUNTS;

use super::Config;

impl Config {
    /// What `new` asks for that can't change while this one runs, as it is written in the file.
    /// Where there is nothing, `new` can take its place as [`Config::numbered_as`] makes it.
    ///
    /// Everything else can be exchanged: classes, tenants, limits, the gate, keys, workers and how
    /// they are spoken to, modes, timeouts, retries, probes, and the bounds on bodies; and what
    /// [`Config::diff_for_newcomers`] says, in part.
    pub fn diff_needs_restart(&self, new: &Self) -> Vec<String> {
        let (was, is) = (&self.listen, &new.listen);
        let mut differences: Vec<String> = [
            (was.address == is.address, "`address` under [listen]"),
            (was.threads == is.threads, "`threads` under [listen]"),
            (was.connections_max == is.connections_max, "`connections_max` under [listen]"),
            (
                was.connections_per_peer_max == is.connections_per_peer_max,
                "`connections_per_peer_max` under [listen]",
            ),
            (was.headers_bytes_max == is.headers_bytes_max, "`headers_bytes_max` under [listen]"),
            (was.headers_max == is.headers_max, "`headers_max` under [listen]"),
            (was.header_time_max == is.header_time_max, "`header_ms_max` under [listen]"),
            (was.idle_time_max == is.idle_time_max, "`idle_ms_max` under [listen]"),
            (was.streams_max == is.streams_max, "`streams_max` under [listen]"),
            (was.tls == is.tls, "[listen.tls]"),
            (self.timeouts.drain_max == new.timeouts.drain_max, "`drain_ms_max` under [timeouts]"),
            (self.record == new.record, "[record]"),
            (self.log == new.log, "[log]"),
            (self.ticket_secret == new.ticket_secret, "`secret_file` under [tickets]"),
            (self.otel == new.otel, "[otel]"),
        ]
        .into_iter()
        .filter(|(is_same, _)| !is_same)
        .map(|(_, what)| what.to_owned())
        .collect();
        let names = |config: &Self| -> Vec<String> {
            config.pools.iter().map(|pool| pool.name.clone()).collect()
        };
        if names(self) != names(new) {
            differences.push("the names of the pools, or their order".to_owned());
            return differences;
        }
        for (was, is) in self.pools.iter().zip(&new.pools) {
            // What is known of the caches is by blocks of this size.
            if was.block_size != is.block_size {
                differences.push(format!("`block_size` of the pool `{}`", was.name));
            }
        }
        let known = |name: &str| self.service.classes.iter().any(|class| class.name == name);
        let added = new.service.classes.iter().filter(|class| !known(&class.name)).count();
        let classes_max = COUNTS.iter().find(|count| count.table == "class").map(|it| it.most);
        if classes_max.is_some_and(|most| self.service.classes.len() + added > most) {
            differences.push("the classes: too many have come and gone".to_owned());
        }
        differences
    }

    /// What `new` asks for that holds only of what begins later.
    pub fn diff_for_newcomers(&self, new: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for (was, is) in self.pools.iter().zip(&new.pools) {
            let (was_assumed, is_assumed) = (was.profile, is.profile);
            let mut differs = |differs: bool, what: &str, until: &str| {
                if differs {
                    differences.push(format!("`{what}` of the pool `{}`, {until}", is.name));
                }
            };
            let joined = "which workers that have joined keep until they join again";
            let (was_kv, is_kv) = (was_assumed.kv_capacity, is_assumed.kv_capacity);
            differs(was_kv != is_kv, "kv_capacity_tokens", joined);
            let (was_batch, is_batch) = (was_assumed.batch_tokens_max, is_assumed.batch_tokens_max);
            differs(was_batch != is_batch, "batch_tokens_max", joined);
            differs(was_assumed.seqs_max != is_assumed.seqs_max, "seqs_max", joined);
            let ratio = was.bytes_per_token.total_cmp(&is.bytes_per_token).is_ne();
            differs(ratio, "bytes_per_token", "which by now is learned");
        }
        differences
    }

    /// The same before any worker was listed.
    #[must_use]
    pub(crate) fn without_workers(mut self) -> Self {
        for pool in &mut self.pools {
            pool.workers.clear();
            pool.dns.clear();
        }
        self
    }

    /// The same with classes and tenants numbered as in the running configuration: what waits and
    /// runs is known by those numbers. What is not there any more keeps its place and its settings
    /// until the next start, and no key leads to it.
    #[must_use]
    pub fn numbered_as(mut self, running: &Self) -> Self {
        let classes =
            renumber(&mut self.service.classes, &running.service.classes, |class| &class.name);
        let tenants =
            renumber(&mut self.service.tenants, &running.service.tenants, |tenant| &tenant.name);
        // Only those of the new file: what was kept names its class by the running number already.
        for nth in &tenants {
            let class = &mut self.service.tenants[*nth].class;
            *class = class.map(|class| classes[class]);
        }
        for key in &mut self.keys {
            key.tenant = TenantId(tenants[key.tenant.0 as usize] as u32);
            key.class = key.class.map(|class| ClassId(classes[usize::from(class.0)] as u16));
        }
        self.anonymous = self.anonymous.map(|id| TenantId(tenants[id.0 as usize] as u32));
        self
    }
}

/// Puts `new` in the order of `running`, by name: what `running` alone has stays where it is, what
/// `new` alone has comes last. Says where each of `new` has gone.
fn renumber<T: Clone>(new: &mut Vec<T>, running: &[T], name: fn(&T) -> &String) -> Vec<usize> {
    let known: BTreeMap<&String, usize> = running.iter().map(name).zip(0..).collect();
    let mut ordered: Vec<T> = running.to_vec();
    let mut places = Vec::with_capacity(new.len());
    for item in new.drain(..) {
        let place = known.get(name(&item)).copied();
        match place {
            Some(place) => ordered[place] = item,
            None => ordered.push(item),
        }
        places.push(place.unwrap_or(ordered.len() - 1));
    }
    *new = ordered;
    places
}
