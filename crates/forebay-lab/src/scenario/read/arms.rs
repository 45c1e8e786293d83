//! Reads what a run is compared with, and what must hold.

use forebay_core::Mode;
use forebay_service::Service;
use forebay_service::reader::{At, Section, listed, nearest};

use super::Reader;
use crate::scenario::expect::{Expectation, Figure, Of};
use crate::scenario::{Arm, keys};

impl Reader<'_> {
    /// An arm: as the scenario's own run, but for what it says.
    pub(super) fn arm(&mut self, mut table: Section<'_>, own: &Arm, service: &Service) -> Arm {
        let line = table.line;
        let name = table.text("name", self.found);
        let name = self.required(name, line, "name", "name it, so that `against` can");
        let mode = table.text("mode", self.found);
        let workers = table.number(&keys::ARM_WORKERS, self.found);
        let tenants = table.texts("tenants", self.found);
        let events = table.flag("events", self.found);
        let retry = table.text("retry", self.found);
        table.finish(self.found);
        let fleet_len = own.workers;
        if let Some(at) = workers.as_ref().filter(|at| at.value as usize > fleet_len) {
            let what = format!("an arm of {} workers", at.value);
            self.found.add(at.line, what, format!("the fleet has {fleet_len}"));
        }
        for tenant in &tenants {
            let known = service.tenants.iter().map(|tenant| tenant.name.as_str());
            self.known(Some(tenant), "tenant", known);
        }
        Arm {
            name: name.map(|at| at.value).unwrap_or_default(),
            mode: mode.and_then(|mode| self.mode(&mode)).unwrap_or(own.mode),
            workers: workers.map_or(fleet_len, |at| at.value as usize),
            tenants: tenants.into_iter().map(|at| at.value).collect(),
            events: events.is_none_or(|at| at.value),
            client: retry.and_then(|retry| self.client(&retry)).unwrap_or(own.client),
        }
    }

    /// An expectation. Arms that it names by their mode are added.
    pub(super) fn expectation(
        &mut self,
        mut table: Section<'_>,
        own: &Arm,
        service: &Service,
        arms: &mut Vec<Arm>,
    ) -> Option<Expectation> {
        let line = table.line;
        let figure = table.text("figure", self.found);
        let class = table.text("class", self.found);
        let tenant = table.text("tenant", self.found);
        let arm = table.text("arm", self.found);
        let against = table.text("against", self.found);
        let at_least = table.number(&keys::AT_LEAST, self.found);
        let at_most = table.number(&keys::AT_MOST, self.found);
        table.finish(self.found);
        if at_least.is_none() && at_most.is_none() {
            let what = "an expectation has no limit";
            self.found.add(line, what, "give `at_least`, `at_most` or both");
        }
        self.known(class.as_ref(), "class", service.classes.iter().map(|one| one.name.as_str()));
        self.known(tenant.as_ref(), "tenant", service.tenants.iter().map(|one| one.name.as_str()));
        if let (Some(_), Some(tenant)) = (&class, &tenant) {
            let what = "an expectation is about a class and a tenant";
            self.found.add(tenant.line, what, "make it two");
        }
        for arm in [&arm, &against].into_iter().flatten() {
            self.arm_named(arm, own, arms);
        }
        let figure = self.required(figure, line, "figure", "name one, such as `ttft_ms.p99`")?;
        let figure = self.figure(&figure)?;
        Some(Expectation {
            figure,
            of: match (class, tenant) {
                (Some(class), _) => Of::Class(class.value),
                (None, Some(tenant)) => Of::Tenant(tenant.value),
                (None, None) => Of::All,
            },
            arm: arm.map(|at| at.value),
            against: against.map(|at| at.value),
            at_least: at_least.map(|at| at.value),
            at_most: at_most.map(|at| at.value),
        })
    }

    fn figure(&mut self, name: &At<String>) -> Option<Figure> {
        let figure = Figure::named(&name.value);
        if figure.is_none() {
            let names = Figure::names();
            let remedy = nearest(&name.value, names.iter().map(String::as_str)).map_or_else(
                || format!("the figures are {}", listed(names.iter().map(String::as_str))),
                |near| format!("did you mean `{near}`?"),
            );
            self.found.add(name.line, format!("there is no figure `{}`", name.value), remedy);
        }
        figure
    }

    /// An arm that is only a mode's name needs no `[[arm]]`.
    fn arm_named(&mut self, name: &At<String>, own: &Arm, arms: &mut Vec<Arm>) {
        if arms.iter().any(|arm| arm.name == name.value) {
            return;
        }
        if let Ok(mode) = name.value.parse::<Mode>() {
            arms.push(Arm { name: name.value.clone(), mode, ..own.clone() });
        } else {
            let what = format!("there is no arm `{}`", name.value);
            self.found.add(name.line, what, "name an `[[arm]]` or a mode");
        }
    }
}
