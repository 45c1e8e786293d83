//! The requests that wait: by class, by tenant, and in the order in which they shall run.

mod fairness;
mod flow;

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

pub(crate) use fairness::{Account, Competition, Held, Ordered};
pub(crate) use flow::{Flow, Place, Scale};

use crate::fleet::Fixed;
use crate::request::{Arrival, ClassId, RequestId, TenantId};
use crate::settings::Settings;
use crate::units::{Moment, Span, Tokens};

/// A request that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) arrival: Arrival,
    /// When the core was offered it: its queue wait counts from here.
    pub(crate) offered: Moment,
    /// Uncached tokens on the worker that holds most of it, when its key was made.
    pub(crate) uncached: Tokens,
    /// What holding its KV costs others, in tokens of prefill that could be done meanwhile.
    pub(crate) occupancy: Tokens,
    /// Output that will be reserved for it.
    pub(crate) output: Tokens,
    pub(crate) place: Place,
    /// The wait that first-come would have cost, predicted at its arrival, if anything was known.
    pub(crate) predicted: Option<Span>,
    /// When it is refused as having waited too long.
    pub(crate) deadline: Option<Moment>,
    /// Dispatches so far.
    pub(crate) attempts: u32,
}

impl Waiting {
    /// Its key on this scale, on the worker that holds most of it.
    pub(crate) fn key(&self, scale: &Scale) -> f64 {
        scale.key(self.uncached, self.occupancy, self.place.arrived)
    }
}

/// The waiting requests of one class.
#[derive(Debug)]
pub(crate) struct ClassQueue {
    pub(crate) account: Account,
    pub(crate) len: u32,
    pub(crate) flows: BTreeMap<TenantId, Flow>,
    pub(crate) tenants: Competition<TenantId>,
}

/// All requests that wait.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: HashMap<RequestId, Waiting, Fixed>,
    pub(crate) classes: Vec<ClassQueue>,
    pub(crate) competing: Competition<ClassId>,
    deadlines: BTreeSet<(Moment, RequestId)>,
    flows_len: usize,
}

impl Queue {
    pub(crate) fn new(classes: usize) -> Self {
        let mut queue = Self {
            waiting: HashMap::default(),
            classes: Vec::new(),
            competing: Competition::new(),
            deadlines: BTreeSet::new(),
            flows_len: 0,
        };
        queue.grow(classes);
        queue
    }

    /// Makes room for so many classes; never shrinks, since requests of a class that is gone may be
    /// running.
    pub(crate) fn grow(&mut self, classes: usize) {
        while self.classes.len() < classes {
            self.classes.push(ClassQueue {
                account: Account::default(),
                len: 0,
                flows: BTreeMap::new(),
                tenants: Competition::new(),
            });
        }
    }

    /// Number of requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Number of flows that have something waiting or running.
    pub(crate) fn flows_len(&self) -> usize {
        self.flows_len
    }

    pub(crate) fn get(&self, request: RequestId) -> Option<&Waiting> {
        self.waiting.get(&request)
    }

    pub(crate) fn class(&self, class: ClassId) -> &ClassQueue {
        &self.classes[usize::from(class.0)]
    }

    pub(crate) fn flow(&self, class: ClassId, tenant: TenantId) -> Option<&Flow> {
        self.class(class).flows.get(&tenant)
    }

    /// Requests that wait, in order of id: for reconfiguration and checks only, since it sorts.
    pub(crate) fn ids(&self) -> Vec<RequestId> {
        let mut ids: Vec<_> = self.waiting.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn insert(&mut self, waiting: Waiting) {
        let (class, tenant) = (waiting.arrival.class, waiting.arrival.tenant);
        let request = waiting.arrival.request;
        let queue = &mut self.classes[usize::from(class.0)];
        if queue.len == 0 {
            self.competing.enter(class, &queue.account);
        }
        queue.len += 1;
        let flow = queue.flows.entry(tenant).or_insert_with(|| {
            self.flows_len += 1;
            Flow::new()
        });
        if flow.len() == 0 {
            queue.tenants.enter(tenant, &flow.account);
        }
        flow.insert(request, &waiting.place);
        if let Some(deadline) = waiting.deadline {
            self.deadlines.insert((deadline, request));
        }
        self.waiting.insert(request, waiting);
    }

    pub(crate) fn remove(&mut self, request: RequestId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&request)?;
        let (class, tenant) = (waiting.arrival.class, waiting.arrival.tenant);
        if let Some(deadline) = waiting.deadline {
            self.deadlines.remove(&(deadline, request));
        }
        let queue = &mut self.classes[usize::from(class.0)];
        queue.len -= 1;
        if let Some(flow) = queue.flows.get_mut(&tenant) {
            flow.remove(request, &waiting.place);
            if flow.len() == 0 {
                queue.tenants.exit(tenant, &flow.account);
            }
        }
        if queue.len == 0 {
            self.competing.exit(class, &queue.account);
        }
        self.forget_idle(class, tenant);
        Some(waiting)
    }

    /// A request of the flow went to a worker, of which it holds a part.
    pub(crate) fn take(
        &mut self,
        (class, tenant): (ClassId, TenantId),
        (held, need): (Held, Tokens),
        settings: &Settings,
    ) {
        let queue = &mut self.classes[usize::from(class.0)];
        self.competing.take(class, &mut queue.account, held, settings.class(class).share);
        let flow = queue.flows.entry(tenant).or_insert_with(|| {
            self.flows_len += 1;
            Flow::new()
        });
        flow.depart(need);
        queue.tenants.take(tenant, &mut flow.account, held, settings.tenant(tenant).weight);
    }

    /// A request of the flow left its worker.
    pub(crate) fn give_back(
        &mut self,
        (class, tenant): (ClassId, TenantId),
        (held, need): (Held, Tokens),
        settings: &Settings,
    ) {
        let queue = &mut self.classes[usize::from(class.0)];
        self.competing.give_back(class, &mut queue.account, held, settings.class(class).share);
        if let Some(flow) = queue.flows.get_mut(&tenant) {
            let weight = settings.tenant(tenant).weight;
            flow.land(need);
            queue.tenants.give_back(tenant, &mut flow.account, held, weight);
        }
        self.forget_idle(class, tenant);
    }

    /// The next moment at which a request will have waited too long, and which.
    pub(crate) fn first_deadline(&self) -> Option<(Moment, RequestId)> {
        self.deadlines.first().copied()
    }

    /// Sets a waiting request's deadline anew.
    pub(crate) fn set_deadline(&mut self, request: RequestId, deadline: Option<Moment>) {
        let Some(waiting) = self.waiting.get_mut(&request) else { return };
        if let Some(before) = std::mem::replace(&mut waiting.deadline, deadline) {
            self.deadlines.remove(&(before, request));
        }
        if let Some(after) = deadline {
            self.deadlines.insert((after, request));
        }
    }

    /// Gives a waiting request another key, since what is cached of it has changed.
    pub(crate) fn rekey(&mut self, request: RequestId, uncached: Tokens) {
        let Some(waiting) = self.waiting.get_mut(&request) else { return };
        let queue = &mut self.classes[usize::from(waiting.arrival.class.0)];
        let Some(flow) = queue.flows.get_mut(&waiting.arrival.tenant) else { return };
        let key = flow.scale.key(uncached, waiting.occupancy, waiting.place.arrived);
        flow.rekey(request, waiting.place.key, key);
        waiting.place.key = key;
        waiting.uncached = uncached;
    }

    /// Takes a flow's scale of now, and makes its keys anew if it has drifted.
    pub(crate) fn rescale(&mut self, class: ClassId, tenant: TenantId, scale: Scale) {
        let queue = &mut self.classes[usize::from(class.0)];
        let Some(flow) = queue.flows.get_mut(&tenant) else { return };
        if !flow.rescale(scale) {
            return;
        }
        let requests: Vec<_> = flow.by_age.iter().map(|(_, request)| *request).collect();
        flow.by_key.clear();
        for request in requests {
            let Some(waiting) = self.waiting.get_mut(&request) else { continue };
            waiting.place.key = waiting.key(&flow.scale);
            flow.by_key.insert((Ordered(waiting.place.key), request));
        }
    }

    fn forget_idle(&mut self, class: ClassId, tenant: TenantId) {
        let flows = &mut self.classes[usize::from(class.0)].flows;
        if flows.get(&tenant).is_some_and(Flow::is_idle) {
            flows.remove(&tenant);
            self.flows_len -= 1;
        }
    }
}
