//! Resolves the keys that clients present. The file has their digests only.

use std::collections::BTreeMap;

use forebay_core::{ClassId, TenantId};
use forebay_service::reader::{At, Gathered, listed, nearest};
use forebay_service::{Service, Tenant, too_many};

use super::defaults as defaults_of;
use super::document::{Document, KeyTable};
use super::{ApiKey, Pool};

/// The tenant of requests without a key, and of keys in a file without tenants.
const ANONYMOUS: [&str; 2] = ["anonymous", "default"];

/// How a digest is made of a key.
const MAKE: &str = "give its digest: sha256 = the output of `printf %s KEY | sha256sum`";

/// What the `[[key]]` tables mean.
pub(super) fn keys(
    document: &Document,
    service: &Service,
    pools: &[Pool],
    found: &mut Gathered,
) -> Vec<ApiKey> {
    let lines = document.keys.iter().map(|table| table.line);
    if too_many(&defaults_of::KEYS_MAX, lines, found) {
        return Vec::new();
    }
    let names = Names::new(service, pools);
    let mut seen: BTreeMap<[u8; 32], usize> = BTreeMap::new();
    let mut keys = Vec::new();
    for table in &document.keys {
        let Some(sha256) = digest(table, found) else { continue };
        if let Some(first) = seen.insert(sha256, table.line) {
            let what = "a `[[key]]` is there twice";
            found.add(table.line, what, format!("take one out; the first is on line {first}"));
        }
        let tenant = names.tenant(table, found);
        let class = table
            .class
            .as_ref()
            .and_then(|typed| Some(ClassId(known("class", typed, &names.classes, found)? as u16)));
        if let Some(models) = &names.models {
            for typed in table.models.iter().flatten() {
                known("model", typed, models, found);
            }
        }
        let of_tenant = service.tenants.get(tenant.0 as usize).and_then(|tenant| tenant.class);
        keys.push(ApiKey {
            sha256,
            tenant,
            class: class.or(of_tenant.map(|class| ClassId(class as u16))),
            models: table
                .models
                .as_ref()
                .map(|models| models.iter().map(|typed| typed.value.clone()).collect()),
            admin: table.admin,
        });
    }
    keys
}

/// The names that a key may use, by their places.
struct Names<'a> {
    tenants: Vec<&'a str>,
    /// Whether tenants are told apart at all.
    has_tenants: bool,
    classes: Vec<&'a str>,
    /// `None` where only the workers know.
    models: Option<Vec<&'a str>>,
}

impl<'a> Names<'a> {
    fn new(service: &'a Service, pools: &'a [Pool]) -> Self {
        let tenants: Vec<&str> = service.tenants.iter().map(|known| known.name.as_str()).collect();
        let has_tenants = tenants.iter().any(|name| !ANONYMOUS.contains(name));
        let models: Vec<&str> =
            pools.iter().flat_map(|pool| &pool.models).map(String::as_str).collect();
        Self {
            has_tenants,
            tenants,
            classes: service.classes.iter().map(|known| known.name.as_str()).collect(),
            models: Some(models).filter(|models| !models.is_empty()),
        }
    }

    /// Whom a key's requests are accounted to.
    fn tenant(&self, table: &KeyTable, found: &mut Gathered) -> TenantId {
        if let Some(typed) = &table.tenant {
            return TenantId(known("tenant", typed, &self.tenants, found).unwrap_or(0) as u32);
        }
        if self.has_tenants && !table.admin {
            let remedy = format!("add `tenant`: {}", listed(self.tenants.iter().copied()));
            found.add(table.line, "a `[[key]]` does not say whose it is", remedy);
        }
        TenantId(anonymous_place(&self.tenants).unwrap_or(0) as u32)
    }
}

/// The place of a name. An unknown one is a fault.
fn known(sort: &str, typed: &At<String>, names: &[&str], found: &mut Gathered) -> Option<usize> {
    let place = names.iter().position(|name| *name == typed.value);
    if place.is_none() {
        let remedy = match nearest(&typed.value, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.len() <= 20 => {
                format!("the known ones are {}", listed(names.iter().copied()))
            }
            None => format!("add it: `[[{sort}]]`, `name = \"{}\"`", typed.value),
        };
        found.add(typed.line, format!("unknown {sort} `{}`", typed.value), remedy);
    }
    place
}

/// The digest of a key. What is there instead is not repeated: it may be the key.
fn digest(table: &KeyTable, found: &mut Gathered) -> Option<[u8; 32]> {
    if let Some(clear) = &table.clear {
        found.add(clear.line, "a `[[key]]` in clear, where everybody can read it", MAKE);
        return None;
    }
    let Some(typed) = &table.sha256 else {
        found.add(table.line, "a `[[key]]` has no `sha256`", MAKE);
        return None;
    };
    let digest = from_hex(&typed.value);
    if digest.is_none() {
        let what = format!(
            "`sha256` is no digest: {} characters, of 64 hexadecimal ones",
            typed.value.chars().count()
        );
        found.add(typed.line, what, MAKE);
    }
    digest
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] * 16 + pair[1]) as u8;
    }
    Some(digest)
}

/// The place of the tenant that requests without a key are accounted to.
fn anonymous_place(names: &[&str]) -> Option<usize> {
    ANONYMOUS.iter().find_map(|wanted| names.iter().position(|name| name == wanted))
}

/// The tenant that requests without a key are accounted to; it is added where it isn't there.
pub(super) fn anonymous(service: &mut Service) -> TenantId {
    let names: Vec<&str> = service.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
    TenantId(anonymous_place(&names).unwrap_or_else(|| {
        service.tenants.push(Tenant {
            name: ANONYMOUS[0].to_owned(),
            settings: service.tenant_default,
            class: None,
            traffic: 0.0,
        });
        service.tenants.len() - 1
    }) as u32)
}
