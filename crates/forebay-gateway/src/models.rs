//! Lists the models of all pools, for clients that ask which there are.

use std::collections::BTreeMap;

use forebay_core::RefusalReason;
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::admin;
use crate::gateway::Gateway;
use crate::refuse::Denial;
use crate::request::{ReplyBody, holder};

/// Where the list is.
pub(crate) const PATH: &str = "/v1/models";

/// The models that the key may ask for, in OpenAI's form, in the order of their names.
pub(crate) fn page(gateway: &Gateway, head: &Parts) -> Result<Response<ReplyBody>, Denial> {
    let models = allowed(gateway, head)?;
    let data: Vec<Value> = models.iter().map(|(name, pool)| model(gateway, name, *pool)).collect();
    Ok(json_page(&json!({ "object": "list", "data": data })))
}

/// The one model whose name stands behind the path of the list.
pub(crate) fn one(gateway: &Gateway, head: &Parts) -> Result<Response<ReplyBody>, Denial> {
    let name = head.uri.path().strip_prefix(PATH).and_then(|rest| rest.strip_prefix('/'));
    let name = admin::decoded(name.unwrap_or_default());
    match allowed(gateway, head)?.get(&name) {
        Some(pool) => Ok(json_page(&model(gateway, &name, *pool))),
        None => Err(Denial::plain(RefusalReason::UnknownModel)),
    }
}

/// The models that the key may ask for, and the pool of each.
fn allowed(gateway: &Gateway, head: &Parts) -> Result<BTreeMap<String, usize>, Denial> {
    let rules = gateway.rules();
    let Some(identity) = holder(&head.headers, &rules) else {
        return Err(Denial::plain(RefusalReason::Unauthenticated));
    };
    let listed = rules.models.iter().map(|(name, pool)| (name.clone(), *pool));
    let mut models: BTreeMap<String, usize> = listed.collect();
    if models.is_empty()
        && let Some(sole) = rules.sole_pool
    {
        let workers = gateway.pools[sole].roster.all();
        let told = workers.iter().map(|worker| worker.models.get());
        models.extend(told.flat_map(|it| it.to_vec()).map(|model| (model.name, sole)));
        if models.is_empty() {
            models.insert(gateway.pools[sole].name.clone(), sole);
        }
    }
    if let Some(allowed) = &identity.models {
        models.retain(|name, _| allowed.contains(name));
    }
    Ok(models)
}

fn model(gateway: &Gateway, name: &str, pool: usize) -> Value {
    let started = gateway.clock.unix_millis(forebay_core::Moment::START) / 1_000;
    let pool = gateway.pools.get(pool).map(|pool| pool.name.as_str());
    json!({ "id": name, "object": "model", "created": started, "owned_by": pool })
}

fn json_page(body: &Value) -> Response<ReplyBody> {
    admin::answer(StatusCode::OK, "application/json", body.to_string())
}
