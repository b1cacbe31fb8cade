//! One run from its registration to its single outcome.
//!
//! Owns the order: register, take ownership in the store, run the loop, record the end, tell the client, release.
//! Must never know: what the client does with the outcome.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::engine::Engine;
use super::lifecycle::Halt;
use super::proof::PrefixBreaks;
use super::registry::RunRegistry;
use super::views::Views;
use crate::client::{ClientEvent, ClientHandle, RunHandle, session};
use crate::clock;
use crate::model::{PreparedRun, ProviderFailure, ProviderFault, RunFailure, RunKind, RunOutcome, Usage};
use crate::provider::Provider;
use crate::store::{ModelCallEnd, RecordedOutcome, RunRecordEnd, Store, StoreError};

/// What every run of the process shares.
#[derive(Clone, Debug)]
pub struct RunServices {
    /// The durable facts.
    pub store: Arc<Store>,
    /// Which run is active where.
    pub registry: RunRegistry,
    /// What the model saw of the latest heads.
    pub views: Views,
    /// The endpoint of each configured model, by the model's id.
    pub providers: Arc<HashMap<String, Arc<dyn Provider>>>,
    /// What is done about a request that breaks its prefix without a declared reset.
    pub prefix_breaks: PrefixBreaks,
}

/// Starts a run. Its events end with exactly one [`ClientEvent::Ended`], whatever happens. Of runs of one conversation
/// the one that was started last owns it; one that is stopped before it could begin leaves no record.
///
/// The returned task ends after that event; it never panics.
pub fn start(services: RunServices, run: PreparedRun) -> (ClientHandle, JoinHandle<()>) {
    let (client, port) = session();
    services.registry.register(&run, &port.cancel);
    let span = tracing::info_span!("run", run = %run.id, conversation = %run.conversation, model = %run.model.model_id);
    let task = tokio::spawn(live(services, run, port).instrument(span));
    (client, task)
}

async fn live(services: RunServices, run: PreparedRun, mut port: RunHandle) {
    let begun = {
        let _turn = services.registry.turn_to_begin().await;
        match port.cancel.is_cancelled() {
            true => None,
            false => Some(services.store.begin_run(&run, clock::unix_ms()).await),
        }
    };
    let (outcome, usage) = match begun {
        None => (RunOutcome::Cancelled, None),
        Some(Err(error)) => (RunOutcome::Failed(error.into()), None),
        Some(Ok(begun)) => {
            tracing::info!(
                superseded = begun.superseded.as_ref().map(tracing::field::display),
                "run started"
            );
            let ended = |outcome| Driven {
                outcome,
                usage: None,
                last_call: None,
            };
            let driven = match is_orphan(&services, &run).await {
                Ok(false) => drive(&services, &run, &mut port).await,
                Ok(true) => ended(RunOutcome::Cancelled),
                Err(error) => ended(RunOutcome::Failed(error.into())),
            };
            let Driven {
                outcome,
                usage,
                last_call,
            } = driven;
            // At once, before anything is written: they spend as long as they run.
            stop_descendants(&services, &run, &outcome);
            let end = RunRecordEnd {
                outcome: &outcome,
                usage,
                last_call,
                ended_at_ms: clock::unix_ms(),
            };
            match services.store.end_run(&run.id, &end).await {
                Ok(()) => (outcome, usage),
                // A run whose end could not be recorded did not complete.
                Err(error) if outcome == RunOutcome::Completed => (RunOutcome::Failed(error.into()), usage),
                Err(error) => {
                    tracing::error!(%error, "the end of the run could not be recorded");
                    (outcome, usage)
                }
            }
        }
    };
    match &outcome {
        RunOutcome::Completed | RunOutcome::Cancelled => {
            // What the endpoint did not count is left out.
            let usage = usage.unwrap_or_default();
            tracing::info!(
                fresh_input = usage.fresh_input,
                cache_read = usage.cache_read,
                cache_write = usage.cache_write,
                output = usage.output,
                reasoning = usage.reasoning,
                "run {}",
                if outcome == RunOutcome::Completed {
                    "completed"
                } else {
                    "cancelled"
                }
            );
        }
        // An endpoint's own words may quote the prompt: the log names the fault, the record and the client have the words.
        RunOutcome::Failed(RunFailure::Provider(failure)) => tracing::warn!(
            category = "provider",
            fault = failure.fault.as_str(),
            status = failure.status,
            code = failure.code,
            "run failed"
        ),
        RunOutcome::Failed(failure) => {
            tracing::warn!(category = failure.kind().as_str(), cause = %failure, "run failed");
        }
    }
    // Again, now that the record says it: a subagent that registered in between has read the record or is found here.
    stop_descendants(&services, &run, &outcome);
    // The client may be gone; the outcome is recorded either way.
    let _ = port.events.send(ClientEvent::Ended(outcome)).await;
    services.registry.release(&run.conversation, &run.id);
}

fn stop_descendants(services: &RunServices, run: &PreparedRun, outcome: &RunOutcome) {
    if *outcome == RunOutcome::Cancelled {
        services.registry.cancel_descendants(run);
    }
}

/// Whether the run above this one was stopped before this one began.
async fn is_orphan(services: &RunServices, run: &PreparedRun) -> Result<bool, StoreError> {
    let RunKind::Subagent {
        parent: Some(parent), ..
    } = &run.kind
    else {
        return Ok(false);
    };
    let record = services.store.run_record(&parent.run).await?;
    Ok(record.is_some_and(|record| record.outcome == Some(RecordedOutcome::Cancelled)))
}

/// What a loop came to.
struct Driven {
    outcome: RunOutcome,
    usage: Option<Usage>,
    last_call: Option<ModelCallEnd>,
}

async fn drive(services: &RunServices, run: &PreparedRun, port: &mut RunHandle) -> Driven {
    let Some(provider) = services.providers.get(&*run.model.model_id) else {
        let failure = ProviderFailure::new(
            ProviderFault::NotFound,
            format!(
                "model \"{}\" has no configured endpoint; add it to the configuration",
                run.model.model_id
            ),
        );
        return Driven {
            outcome: RunOutcome::Failed(failure.into()),
            usage: None,
            last_call: None,
        };
    };
    let (store, views) = (&services.store, &services.views);
    let mut engine = Engine::new(store, views, provider.as_ref(), run, port, services.prefix_breaks);
    // A defect of ours must still end the run once, with a record and an end frame.
    let result = AssertUnwindSafe(engine.run()).catch_unwind().await;
    let (usage, last_call) = (engine.total_usage(), engine.last_call());
    let outcome = match result {
        Ok(Ok(())) => RunOutcome::Completed,
        Ok(Err(Halt::Cancelled)) => RunOutcome::Cancelled,
        Ok(Err(Halt::Failed(failure))) => RunOutcome::Failed(failure),
        Err(_) => RunOutcome::Failed(RunFailure::Store(
            "cairn stopped this run because of a defect of its own; its log names the place".to_owned(),
        )),
    };
    Driven {
        outcome,
        usage,
        last_call,
    }
}
