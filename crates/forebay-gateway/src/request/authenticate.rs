//! Says who asks, before a byte of the body is read.

use forebay_core::{ClassId, RefusalReason};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use sha2::{Digest as _, Sha256};

use crate::refuse::Denial;
use crate::rules::{Identity, Rules};

/// Carries a key for clients of Anthropic's API.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Names the class, for clients that may choose it.
const CLASS: HeaderName = HeaderName::from_static("x-forebay-class");

/// Who presents these headers.
pub(super) fn identity(headers: &HeaderMap, rules: &Rules) -> Result<Identity, Denial> {
    let mut identity = holder(headers, rules)
        .ok_or_else(|| Denial::plain(RefusalReason::Unauthenticated))?
        .clone();
    if let Some(asked) = headers.get(CLASS) {
        identity.class = Some(chosen(asked.as_bytes(), identity.class, rules)?);
    }
    Ok(identity)
}

/// Whoever presents these headers. Where there are keys, a wrong one is not taken for none; where
/// there are none, any is: official clients can't do without.
pub(crate) fn holder<'a>(headers: &HeaderMap, rules: &'a Rules) -> Option<&'a Identity> {
    match key(headers).filter(|_| !rules.keys.is_empty()) {
        Some(key) => rules.keys.holder(&Sha256::digest(key).into()),
        None => rules.anonymous.as_ref(),
    }
}

/// The class that a client names. A key that has a class of its own may name no other.
fn chosen(asked: &[u8], own: Option<ClassId>, rules: &Rules) -> Result<ClassId, Denial> {
    let place = rules.classes.iter().position(|class| class.name.as_bytes() == asked);
    let Some(class) = place.map(|nth| ClassId(nth as u16)) else {
        let what = "There is no class of the name that the request asks for.";
        return Err(Denial::because(RefusalReason::InvalidRequest, what));
    };
    match own {
        Some(own) if own != class => Err(Denial::plain(RefusalReason::Forbidden)),
        _ => Ok(class),
    }
}

/// The key that these headers present.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(key) = headers.get(X_API_KEY) {
        return Some(key.as_bytes());
    }
    let (scheme, key) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
}
