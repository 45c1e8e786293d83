//! Says why a row can't be true: what no client that measures could have seen.
//!
//! Rows are what every figure is made of, so one that contradicts itself is refused where it is
//! read, before anything is made of it.

use forebay_core::Span;

use super::{Attempt, Outcome, Row};

/// No run is as long: a moment beyond is a number that was made up, or that overflowed.
const LONGEST: Span = Span::secs(366 * 24 * 3_600);

impl Row {
    /// Whether it could be true, or why it can't. Moments have to be in order, each attempt has to
    /// have an answer that its outcome allows, and the request has to end as its last attempt did.
    pub fn check(&self) -> Result<(), String> {
        let ended = self.last().map_or(Outcome::NotSent, |last| last.outcome);
        if self.outcome != ended {
            let (own, other) = (self.outcome.name(), ended.name());
            return Err(if self.attempts.is_empty() {
                format!("request {} is {own}, and has no attempt", self.request)
            } else {
                format!("request {} is {own}, and its last attempt {other}", self.request)
            });
        }
        if self.scheduled > LONGEST {
            return Err(format!("request {} was due after more than a year", self.request));
        }
        let mut earlier = self.scheduled;
        for (nth, attempt) in self.attempts.iter().enumerate() {
            let told = |what: String| {
                let nth = nth + 1;
                Err(format!("attempt {nth} of request {} {what}", self.request))
            };
            if attempt.due < earlier {
                let what = if nth == 0 { "the request" } else { "the attempt before it was over" };
                return told(format!("was due before {what}"));
            }
            let is_last = nth + 1 == self.attempts.len();
            if !is_last && matches!(attempt.outcome, Outcome::Completed | Outcome::NotSent) {
                return told(format!("is {}, and others follow it", attempt.outcome.name()));
            }
            if let Err(what) = attempt.check() {
                return told(what);
            }
            earlier = attempt.end;
        }
        Ok(())
    }
}

impl Attempt {
    fn check(&self) -> Result<(), String> {
        if self.end < self.due {
            let us = |span: Span| span.0 / 1_000;
            return Err(format!(
                "ended at {} µs, before it was due at {} µs",
                us(self.end),
                us(self.due)
            ));
        }
        if self.end > LONGEST {
            return Err("ended after more than a year".to_owned());
        }
        let sent = [(self.dequeued, "was taken up"), (self.connected, "was connected")];
        let sent = sent.into_iter().chain([(self.written, "was written")]);
        for (at, what) in sent {
            if at.is_some_and(|at| at > self.end) {
                return Err(format!("{what} after it had ended"));
            }
        }
        let came = [
            (self.first_byte, "the first byte"),
            (self.first_token, "the first token"),
            (self.chunks.first().copied(), "the first event with a token"),
        ];
        let mut before = (self.due, "it was due");
        for (at, what) in came {
            let Some(at) = at else { continue };
            if at < before.0 {
                let came = if before.1 == "it was due" { "" } else { " came" };
                return Err(format!("has {what} before {}{came}", before.1));
            }
            before = (at, what);
        }
        let answered = self.first_answer.into_iter().zip(self.first_token);
        if answered.into_iter().any(|(answer, token)| answer < token) {
            return Err("has the first token of its answer before its first token".to_owned());
        }
        if !self.chunks.is_sorted() {
            return Err("has events that are not in their order".to_owned());
        }
        let last = [self.first_byte, self.first_token, self.first_answer];
        let last = last.into_iter().flatten().chain(self.chunks.last().copied());
        if last.max().is_some_and(|last| last > self.end) {
            return Err("ended before the last of its answer had come".to_owned());
        }
        self.check_outcome()
    }

    /// Whether what came allows the way in which it ended.
    fn check_outcome(&self) -> Result<(), String> {
        let name = self.outcome.name();
        match (self.outcome, self.status) {
            (Outcome::Completed, Some(status)) if !(200..300).contains(&status) => {
                return Err(format!("is {name}, with status {status}"));
            }
            (Outcome::Refused, Some(status)) if !matches!(status, 429 | 503 | 529) => {
                return Err(format!("is {name}, with status {status}"));
            }
            _ => {}
        }
        if self.outcome == Outcome::Completed && self.first_token.is_none() {
            let asked = if self.chunks.is_empty() { self.first_answer.is_some() } else { true };
            if asked {
                return Err(format!("is {name} with tokens, and has no first token"));
            }
        }
        match self.fault {
            Some(fault) if self.outcome != Outcome::Failed => {
                Err(format!("is {name}, with the fault {fault:?}"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::Span;

    use super::super::tests::{refused, row, served};
    use super::super::{Fault, Outcome, Row};

    fn told(change: impl FnOnce(&mut Row)) -> String {
        let mut row = served(7, 100, 40);
        change(&mut row);
        row.check().unwrap_err()
    }

    #[test]
    fn what_a_client_can_see_is_taken() {
        for row in [served(0, 0, 40), refused(1, 5, 0), row(2, 9)] {
            assert_eq!(row.check(), Ok(()));
        }
        let mut again = refused(0, 0, 10);
        let served = served(0, 2_010, 40);
        (again.outcome, again.attempts) =
            (Outcome::Completed, [again.attempts, served.attempts].concat());
        assert_eq!(again.check(), Ok(()));
    }

    #[test]
    fn a_request_ends_as_its_last_attempt_does() {
        let said = told(|row| row.outcome = Outcome::Refused);
        assert_eq!(said, "request 7 is refused, and its last attempt completed");
        let said = told(|row| row.attempts.clear());
        assert_eq!(said, "request 7 is completed, and has no attempt");
        let said = told(|row| row.attempts.push(refused(7, 900, 1).attempts[0].clone()));
        assert!(said.contains("is completed, and its last attempt refused"), "{said}");
        let said = told(|row| {
            row.outcome = Outcome::Refused;
            row.attempts.push(refused(7, 900, 1).attempts[0].clone());
        });
        assert!(said.contains("is completed, and others follow it"), "{said}");
    }

    #[test]
    fn no_moment_comes_before_what_leads_to_it() {
        let ms = Span::millis;
        let said = told(|row| row.attempts[0].end = Span::ZERO);
        assert!(said.contains("ended at 0 µs, before it was due at 100000 µs"), "{said}");
        let said = told(|row| row.attempts[0].due = ms(99));
        assert!(said.contains("was due before the request"), "{said}");
        let said = told(|row| row.attempts[0].first_token = Some(ms(101)));
        assert!(said.contains("the first token before the first byte came"), "{said}");
        let said = told(|row| row.attempts[0].first_byte = Some(ms(50)));
        assert!(said.contains("the first byte before it was due"), "{said}");
        let said = told(|row| row.attempts[0].chunks[2] = ms(900));
        assert!(said.contains("ended before the last of its answer"), "{said}");
        let said = told(|row| row.attempts[0].chunks.swap(1, 2));
        assert!(said.contains("not in their order"), "{said}");
        let said = told(|row| row.attempts[0].dequeued = Some(ms(900)));
        assert!(said.contains("was taken up after it had ended"), "{said}");
        let said = told(|row| row.attempts[0].end = Span(u64::MAX));
        assert!(said.contains("more than a year"), "{said}");
    }

    #[test]
    fn an_answer_allows_the_way_in_which_it_ends() {
        let said = told(|row| row.attempts[0].status = Some(500));
        assert!(said.contains("is completed, with status 500"), "{said}");
        let said = told(|row| row.attempts[0].fault = Some(Fault::Cut));
        assert!(said.contains("is completed, with the fault Cut"), "{said}");
        let said = told(|row| row.attempts[0].first_token = None);
        assert!(said.contains("has no first token"), "{said}");
        let mut odd = refused(0, 0, 1);
        odd.attempts[0].status = Some(200);
        assert!(odd.check().unwrap_err().contains("is refused, with status 200"));
    }
}
