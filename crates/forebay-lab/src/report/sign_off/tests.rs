//! Holds sign-offs to what may stand in them, and to the criteria.

use std::path::Path;

use super::SignOff;
use crate::drill::criteria::Criteria;

const WHOLE: &str = r#"service = "Chat <for> residents"
decision = "Open it to all"
criteria = "criteria.toml"
decide_by = "2027-01-25"

[[decides]]
role = "product owner"

[[agreed]]
refused_share_max = 0.01

[[agreed]]
class = "research"
refused_share_max = 0.15

[[call]]
when = "more than 5 % are refused"
whom = "platform on call"
"#;

fn parse(text: &str) -> SignOff {
    SignOff::parse(Path::new("conf/sign-off.toml"), text).unwrap()
}

fn faults(text: &str) -> String {
    SignOff::parse(Path::new("sign-off.toml"), text).unwrap_err().to_string()
}

fn criteria(text: &str) -> Criteria {
    Criteria::parse(Path::new("criteria.toml"), text).unwrap()
}

#[test]
fn a_whole_one_is_read_and_its_paths_begin_at_its_folder() {
    let sign_off = parse(WHOLE);
    assert_eq!(sign_off.criteria.as_deref(), Some(Path::new("conf/criteria.toml")));
    assert_eq!(sign_off.agreed_for(Some("research")), Some(0.15));
    assert_eq!(sign_off.agreed_for(None), Some(0.01));
    assert_eq!(sign_off.agreed_for(Some("public")), None);
    assert_eq!(sign_off.calls[0].whom, "platform on call");
}

#[test]
fn faults_come_all_at_once_with_their_lines() {
    let text = "service = \"\"\nby = \"soon\"\n[[decides]]\n[[agreed]]\nrefused_share_max = 14\n";
    assert_eq!(
        faults(text),
        "sign-off.toml:1: `decision` is missing\nhint: say what is to be decided\n\
         sign-off.toml:1: `service` is empty\nhint: say what the service is called\n\
         sign-off.toml:2: the file has no key `by`\n\
         hint: the keys are `service`, `decision`, `criteria`, `decide_by`, `contact`, `notes`, \
         `decides`, `agreed`, `call`\n\
         sign-off.toml:3: [[decides]] says nobody\nhint: give a `role`, a `name` or both\n\
         sign-off.toml:5: [[agreed]] has `refused_share_max` = 14, which is out of range\n\
         hint: give a number from 0 to 1; without the key, nothing is agreed, so leave the table \
         out"
    );
    assert!(faults("service = \"a\"\ndecision = \"b\"\n").contains("nobody decides"));
    let twice = format!("{WHOLE}[[agreed]]\nrefused_share_max = 0.02\n");
    assert!(faults(&twice).contains("the same is agreed twice"));
    let none = format!("{WHOLE}[[agreed]]\nclass = \"x\"\n");
    assert!(faults(&none).contains("has no `refused_share_max`"));
}

#[test]
fn what_was_agreed_and_what_was_tested_are_one_figure() {
    let sign_off = parse(WHOLE);
    let same = "refused_share_max = 0.01\n[class.research]\nrefused_share_max = 0.15\n";
    assert_eq!(sign_off.check_against(&criteria(same)), Ok(()));
    let other = "refused_share_max = 0.02\n";
    assert_eq!(
        sign_off.check_against(&criteria(other)).unwrap_err().to_string(),
        "conf/sign-off.toml:10: 1 % refused of all requests were agreed, and the criteria say 2 %\n\
         hint: make both the same figure, the one that was agreed\n\
         conf/sign-off.toml:14: 15 % refused of class research were agreed, and the criteria have \
         no limit\nhint: add refused_share_max = 0.15 to the criteria before the run"
    );
}

#[test]
fn the_block_has_lines_to_sign_on_and_no_markup_of_others() {
    let sign_off = parse(WHOLE);
    let html = super::html(&sign_off, "NO-GO");
    assert!(html.contains("Chat &lt;for&gt; residents") && !html.contains("<for>"));
    for part in ["Date", "Signature", "Seal", "at most 15 % refused", "<dd>NO-GO</dd>"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(super::markdown(&sign_off).contains("- [ ] accepted by product owner, on"));
}
