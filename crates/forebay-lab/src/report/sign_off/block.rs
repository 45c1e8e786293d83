//! Writes the sign-off as it stands on a page: what was agreed, and lines to sign on.

use std::fmt::Write as _;

use super::{Person, SignOff};
use crate::drill::notation::percent;
use crate::report::escape::{Escaped, plain};

/// What is said of every sign-off, whoever signs.
const SEAL: &str = "Write the seal beside the signature: it is the SHA-256 of report.json, which \
                    holds the hash of every other file. `forebay report verify` prints it, and \
                    says whether a file was changed, lost or added since.";

/// The rows of the block: what, and what it says.
fn rows(sign_off: &SignOff) -> Vec<(String, String)> {
    let mut rows = vec![
        ("Service".to_owned(), sign_off.service.clone()),
        ("Decision wanted".to_owned(), sign_off.decision.clone()),
    ];
    for agreed in &sign_off.agreed {
        let who = match &agreed.class {
            Some(class) => format!("Agreed limit, class {class}"),
            None => "Agreed limit, all requests".to_owned(),
        };
        rows.push((who, format!("at most {} refused", percent(agreed.refused_share_max))));
    }
    if sign_off.agreed.is_empty() {
        rows.push(("Agreed limit".to_owned(), "no share of refusals was agreed".to_owned()));
    }
    let criteria = sign_off.criteria.as_ref().and_then(|path| path.file_name());
    let criteria = criteria.map(|name| name.to_string_lossy().into_owned());
    let rest = [
        ("Criteria", criteria),
        ("To be decided by", sign_off.decide_by.clone()),
        ("Contact", sign_off.contact.clone()),
        ("Notes", sign_off.notes.clone()),
    ];
    rows.extend(rest.into_iter().filter_map(|(what, said)| Some((what.to_owned(), said?))));
    rows
}

/// How somebody is called: `A. Example, product owner`.
fn called(person: &Person) -> String {
    let parts = [&person.name, &person.role];
    parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(", ")
}

/// The block as HTML. `verdict` is what the measurement says, in one word.
pub(in crate::report) fn html(sign_off: &SignOff, verdict: &str) -> String {
    let mut html = "<dl class=\"facts-list\">\n".to_owned();
    for (what, said) in rows(sign_off) {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", Escaped(&what), Escaped(&said));
    }
    let _ = writeln!(html, "<dt>Verdict of the measurement</dt><dd>{}</dd>", Escaped(verdict));
    html.push_str("</dl>\n");
    for person in &sign_off.decides {
        let _ = write!(
            html,
            "<div class=\"sign\">\n<p class=\"who\">{}</p>\n\
             <p><span class=\"box\" aria-hidden=\"true\"></span> accepted \
             <span class=\"box\" aria-hidden=\"true\"></span> not accepted</p>\n\
             <p class=\"lines\"><span>Date</span><span>Signature</span><span>Seal</span></p>\n\
             </div>\n",
            Escaped(&called(person))
        );
    }
    let command = "forebay report verify";
    let seal = Escaped(SEAL).to_string();
    let seal = seal.replace(&format!("`{command}`"), &format!("<code>{command}</code>"));
    let _ = writeln!(html, "<p class=\"facts\">{seal}</p>");
    html
}

/// The block in Markdown, for a ticket.
pub(in crate::report) fn markdown(sign_off: &SignOff) -> String {
    let mut text = String::new();
    for (what, said) in rows(sign_off) {
        let _ = writeln!(text, "- **{}**: {}", plain(&what), plain(&said));
    }
    for person in &sign_off.decides {
        let _ = writeln!(text, "- [ ] accepted by {}, on", plain(&called(person)));
    }
    text
}
