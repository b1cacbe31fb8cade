//! Tries many faults, each by itself and under its own name, and holds the document to their number.
//!
//! Must never know: what a fault is.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Where the numbers of faults are published.
const DOCUMENT: &str = include_str!("../../../../docs/faults.md");

/// How many faults of a kind are tried at a time.
const AT_A_TIME: usize = 3;

/// One fault and what must hold after it.
pub struct Fault {
    name: String,
    trial: Box<dyn FnOnce() + Send>,
}

impl Fault {
    pub fn new<F: Future<Output = ()>>(
        name: impl Into<String>,
        trial: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            trial: Box::new(move || block_on(trial())),
        }
    }
}

/// Runs a future on a runtime of its own, in this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

/// Tries all faults of a kind. Fails with the name of each that was not survived, or if the document states another
/// number of them.
pub fn try_all(kind: &str, faults: Vec<Fault>) {
    let count = faults.len();
    let waiting = Mutex::new(VecDeque::from(faults));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop_front();
                    let Some(Fault { name, trial }) = next else { break };
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(trial)) {
                        failed
                            .lock()
                            .unwrap()
                            .push(format!("{name}: {}", text_of(&*panic)));
                    }
                }
            });
        }
    });
    println!("{kind}: {count} faults");
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{kind}: {} of {count} faults were not survived:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert_eq!(
        figures().remove(kind),
        Some(count),
        "docs/faults.md does not state the number of faults of the kind `{kind}`"
    );
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it failed without a text")
}

/// The numbers in the document's table, by kind: `| kind | number | … |`.
fn figures() -> BTreeMap<&'static str, usize> {
    DOCUMENT
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
            let kind = cells.next()?;
            Some((kind, cells.next()?.parse().ok()?))
        })
        .collect()
}

#[test]
fn the_documents_sum_is_the_sum_of_its_rows() {
    let mut figures = figures();
    let total = figures.remove("**all**").expect("docs/faults.md states a sum");
    assert_eq!(total, figures.values().sum::<usize>());
    assert!(
        DOCUMENT.contains(&format!("**{total} faults**")),
        "the text of docs/faults.md states another number than its table, which is {total}"
    );
}
