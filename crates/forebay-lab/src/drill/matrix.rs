//! Runs every cell of a drill, on as many threads as there are cores, with results in a fixed
//! order.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use forebay_core::Mode;
use serde::Serialize;

/// How the fleet of a run differs from the engine's preset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Variation {
    /// The workers' true KV tokens, in percent above or below the preset's. The core knows.
    pub kv_pct: i32,
    /// The engine's speed, in percent above or below the preset's: each step takes 1 / (1 + pct /
    /// 100) as long.
    pub speed_pct: i32,
    /// What the core believes of the workers' KV tokens, in percent above or below the truth.
    pub belief_pct: i32,
}

impl Variation {
    /// The fleet as the preset has it.
    pub const NONE: Self = Self { kv_pct: 0, speed_pct: 0, belief_pct: 0 };
}

/// One run to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// How requests are routed.
    pub arm: Mode,
    /// Number of workers.
    pub workers: u32,
    /// The seed: the same for every arm, so that all arms of a seed meet the same requests.
    pub seed: u64,
    /// How the fleet differs from the preset.
    pub variation: Variation,
}

/// Runs all cells and returns what came of each, in the order of the cells.
///
/// Threads take the next cell as they become free, so a slow cell delays nobody; the order of
/// results, and the error that is reported where several cells fail, are those of the cells and not
/// of the clock. After a failure no new cell is begun. `done` is called after each cell, from any
/// thread.
pub fn run<T: Send, E: Send>(
    cells: &[Cell],
    work: &(dyn Fn(&Cell) -> Result<T, E> + Sync),
    done: &(dyn Fn() + Sync),
) -> Result<Vec<T>, E> {
    let results: Mutex<Vec<Option<Result<T, E>>>> =
        Mutex::new(cells.iter().map(|_| None).collect());
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(cells.len());
    let labour = || {
        while !failed.load(Ordering::Relaxed) {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(nth) else { break };
            let result = work(cell);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            results.lock().expect("no thread panics with the lock held")[nth] = Some(result);
            done();
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(labour);
        }
    });
    // Cells are begun in order, so all before the first failure have a result.
    results.into_inner().expect("all threads have ended").into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use forebay_core::Mode;

    use super::{Cell, Variation, run};

    fn cells(count: u64) -> Vec<Cell> {
        let cell =
            |seed| Cell { arm: Mode::RoundRobin, workers: 2, seed, variation: Variation::NONE };
        (0..count).map(cell).collect()
    }

    #[test]
    fn results_come_in_the_order_of_the_cells() {
        let done = AtomicU32::new(0);
        let work = |cell: &Cell| {
            // The first cells take longest.
            (0..(40 - cell.seed) * 1000).for_each(|nth| {
                std::hint::black_box(nth);
            });
            Ok::<_, String>(cell.seed)
        };
        let count = || {
            done.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(run(&cells(40), &work, &count), Ok((0..40).collect()));
        assert_eq!(done.load(Ordering::Relaxed), 40);
    }

    #[test]
    fn the_first_failure_in_order_is_the_one_reported() {
        let work = |cell: &Cell| if cell.seed >= 3 { Err(cell.seed) } else { Ok(()) };
        for _ in 0..20 {
            assert_eq!(run(&cells(10), &work, &|| ()), Err(3));
        }
    }

    #[test]
    fn no_cells_are_no_work() {
        assert_eq!(run(&[], &|_| Err::<(), _>("never"), &|| ()), Ok(vec![]));
    }
}
