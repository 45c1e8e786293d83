//! Says what of a sound configuration may not be what was meant.

use super::Config;

impl Config {
    /// What whoever wrote the file may not expect, each as a sentence. Nothing of it is a fault.
    pub fn cautions(&self) -> Vec<String> {
        let asked = self.pools.iter().filter(|pool| !pool.models.is_empty()).count();
        if asked < 2 {
            return Vec::new();
        }
        let is_limited = |tenant: &&forebay_service::Tenant| {
            let settings = tenant.settings;
            settings.rate.is_some()
                || settings.tokens.is_some()
                || settings.concurrency_max.is_some()
        };
        let limited = self.service.tenants.iter().filter(is_limited);
        let caution = |tenant: &forebay_service::Tenant| {
            format!(
                "the limits of the tenant `{}` hold in each of {asked} pools apart, so that over \
                 all of them it may have {asked} times as much",
                tenant.name
            )
        };
        limited.map(caution).collect()
    }
}
