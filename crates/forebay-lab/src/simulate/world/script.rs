//! Lets happen to the main pool what the plan's script says.

use forebay_core::{Input, Observation, RequestId, WorkerId};

use super::World;
use crate::simulate::Happening;

impl World<'_> {
    /// Plays the happening at this place of the script.
    pub(super) fn play(&mut self, place: u32) {
        let workers = self.pools[0].workers.len();
        match self.script[place as usize].clone() {
            Happening::Reconfigured(settings) => self.tell_main(Input::Reconfigured(settings)),
            Happening::Lost(who) => who.places(workers).for_each(|worker| self.lose(worker)),
            Happening::Back(who) => who.places(workers).for_each(|worker| self.bring_back(worker)),
            Happening::Slowed(who, factor) => {
                for worker in who.places(workers) {
                    self.pools[0].workers[worker].engine.set_slowdown(factor);
                }
            }
            Happening::Drained(who) => {
                for worker in who.places(workers) {
                    self.tell_of(worker, Observation::Draining(true));
                }
            }
            Happening::CapacityTold(who) => {
                for worker in who.places(workers) {
                    let capacity = self.pools[0].workers[worker].capacity();
                    self.tell_of(worker, capacity);
                }
            }
        }
    }

    fn lose(&mut self, place: usize) {
        let worker = &mut self.pools[0].workers[place];
        if !worker.is_alive {
            return;
        }
        worker.is_alive = false;
        worker.step_ends = None;
        for job in worker.engine.crash() {
            self.books.returns_to_core(RequestId(job));
        }
        self.tell_of(place, Observation::Left);
    }

    fn bring_back(&mut self, place: usize) {
        let worker = &mut self.pools[0].workers[place];
        if !worker.is_alive {
            worker.is_alive = true;
            let joined = worker.joined();
            self.tell_of(place, joined);
        }
    }

    fn tell_of(&mut self, place: usize, what: Observation) {
        self.tell_main(Input::Observed(WorkerId(place as u32), what));
    }

    fn tell_main(&mut self, input: Input) {
        self.inputs.push_back((0, input));
    }
}
