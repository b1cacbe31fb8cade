//! The conformance run: two turns with one skill load each, against the fixture, then the verdict.
//!
//! Must never know: what the host is.

use std::time::Duration;

use serde_json::Value;

use crate::api::Api;
use crate::assess::{Limits, Outcome, Violation, assess, verify};
use crate::fixture::{FIXTURE_MODEL, Fixture, REQUESTS, Skill};
use crate::host::{Host, HostError, Session};
use crate::request::Request;
use crate::tail::TailError;
use crate::visible::visible;

/// The inputs of the two turns where none are given. Fixed, so that runs of different hosts compare.
pub const DEFAULT_INPUTS: [&str; 2] = [
    "Load the first skill and tell me in one sentence what it is for.",
    "Now load the second skill and tell me in one sentence what it is for.",
];

/// The skills where none are given, loaded with the host's tool `load_skill`.
pub fn default_skills() -> [Skill; 2] {
    [
        Skill::new(
            "alpha",
            "# Alpha\n\nAlpha is the first of the two skills of this check.\nAnswer with its name.\n",
        ),
        Skill::new(
            "beta",
            "# Beta\n\nBeta is the second of the two skills of this check.\nAnswer with its name.\n",
        ),
    ]
}

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub struct ConformanceOptions {
    /// The API that the host speaks.
    pub api: Api,
    /// Exactly two skills of different names and bodies, loaded in the order of the turns.
    pub skills: [Skill; 2],
    /// The inputs of the two turns.
    pub inputs: [String; 2],
    /// What the host has to keep.
    pub limits: Limits,
    /// How long a turn may take.
    pub turn_timeout: Duration,
}

impl ConformanceOptions {
    /// Everything at its default.
    pub fn new(api: Api) -> Self {
        Self {
            api,
            skills: default_skills(),
            inputs: DEFAULT_INPUTS.map(str::to_owned),
            limits: Limits::default(),
            turn_timeout: Duration::from_secs(120),
        }
    }
}

/// Why a host does not conform, or could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The options contradict themselves; nothing was run.
    #[error("{0}")]
    Options(&'static str),
    /// No port for the fixture.
    #[error("the fixture endpoint cannot listen on loopback: {0}")]
    Fixture(std::io::Error),
    /// The host failed by itself.
    #[error("turn {turn}: {fault}")]
    Host {
        /// One-based.
        turn: usize,
        /// What the host says.
        fault: HostError,
    },
    /// The fixture refused a request.
    #[error("turn {turn}: the fixture refused a request: {fault}")]
    Refused {
        /// One-based.
        turn: usize,
        /// Why.
        fault: String,
    },
    /// A turn is two requests: one that is answered with a call, one that is answered with text.
    #[error(
        "turn {turn} ended after {seen} request(s) in all; {expected} were due, two for each turn{}",
        if *seen == 0 { format!("; does the host take its base URL from {}?", api.base_url_variable()) } else { String::new() }
    )]
    RequestCount {
        /// What the host is to speak.
        api: Api,
        /// One-based.
        turn: usize,
        /// Since the run began.
        seen: usize,
        /// Since the run began.
        expected: usize,
    },
    /// The turn was still running when its time was over.
    #[error("turn {turn} did not end within {} s", limit.as_secs())]
    TimedOut {
        /// One-based.
        turn: usize,
        /// The limit.
        limit: Duration,
    },
    /// A loaded body is in no request that came after its load: the host drops it, so stability proves nothing.
    #[error(
        "the body of skill `{skill}` was loaded in request {loaded_in} and never reached a later request"
    )]
    BodyNeverSent {
        /// The skill's name.
        skill: String,
        /// One-based number of the request whose answer loaded it.
        loaded_in: usize,
        /// The figures, which prove nothing.
        outcome: Box<Outcome>,
    },
    /// The host declared a tail segment that cannot be.
    #[error("{0}")]
    Tail(#[from] TailError),
    /// The prefix broke, or did not break where it was declared to.
    #[error("{violation}{}", first_difference(outcome, violation))]
    Broken {
        /// What was violated.
        violation: Violation,
        /// The figures.
        outcome: Box<Outcome>,
    },
}

/// Where the first breaking pair differs, as a second sentence.
fn first_difference(outcome: &Outcome, violation: &Violation) -> String {
    let Violation::TooManyResets { later, limits, .. } = violation else {
        return String::new();
    };
    outcome
        .pairs
        .iter()
        .find(|pair| pair.request == *later)
        .and_then(|pair| pair.asserted(limits.assert_on).boundary.as_ref())
        .map(|boundary| {
            format!(
                "; the first differing item is {} ({})",
                boundary.first,
                visible(&boundary.label)
            )
        })
        .unwrap_or_default()
}

/// Drives the host through two turns and judges its requests.
///
/// The fixture answers each turn's first request with a call that loads that turn's skill, its second with text. Nothing of
/// the host is replaced but the endpoint.
///
/// # Errors
/// See [`ConformanceError`]; `Broken` carries the figures.
pub async fn run_prefix_conformance<H: Host>(
    host: &mut H,
    options: &ConformanceOptions,
) -> Result<Outcome, ConformanceError> {
    check(options)?;
    let fixture = Fixture::start(options.api, options.skills.clone())
        .await
        .map_err(ConformanceError::Fixture)?;
    let session = Session {
        api: options.api,
        origin: fixture.origin().to_owned(),
        base_url: options.api.base_url(fixture.origin()),
        model: FIXTURE_MODEL.to_owned(),
        skills: options.skills.clone(),
        inputs: options.inputs.clone(),
    };
    for turn in 1..=options.inputs.len() {
        let limit = options.turn_timeout;
        let ran = tokio::time::timeout(limit, host.turn(&session, turn)).await;
        // A refusal explains a failing or waiting host better than the host can.
        if let Some(fault) = fixture.faults().into_iter().next() {
            return Err(ConformanceError::Refused { turn, fault });
        }
        ran.map_err(|_| ConformanceError::TimedOut { turn, limit })?
            .map_err(|fault| ConformanceError::Host { turn, fault })?;
        let expected = turn * REQUESTS / options.inputs.len();
        let seen = fixture.count();
        if seen != expected && !(host.runs_all_turns_at_once() && seen == REQUESTS) {
            return Err(ConformanceError::RequestCount {
                api: options.api,
                turn,
                seen,
                expected,
            });
        }
    }
    let tail = host
        .tail_segments()
        .await
        .map_err(|fault| ConformanceError::Host {
            turn: options.inputs.len(),
            fault,
        })?;
    let requests = fixture.take_requests();
    let outcome = assess(&requests, &tail, &options.limits)?;
    for (index, skill) in options.skills.iter().enumerate() {
        let loaded_in = 2 * index + 1;
        if !requests[loaded_in..]
            .iter()
            .any(|request| holds(request, &skill.body))
        {
            return Err(ConformanceError::BodyNeverSent {
                skill: skill.name.clone(),
                loaded_in,
                outcome: Box::new(outcome),
            });
        }
    }
    match verify(&outcome, &options.limits) {
        Ok(()) => Ok(outcome),
        Err(violation) => Err(ConformanceError::Broken {
            violation,
            outcome: Box::new(outcome),
        }),
    }
}

fn check(options: &ConformanceOptions) -> Result<(), ConformanceError> {
    let [one, two] = &options.skills;
    let fault = if options.skills.iter().any(|skill| skill.body.trim().is_empty()) {
        "a skill has no body: nothing could be seen to reach a request; give it one"
    } else if one.name == two.name || one.body == two.body {
        "the two skills are the same; give them different names and bodies"
    } else if !(0.0..=1.0).contains(&options.limits.min_continuity) {
        "min_continuity is a fraction: choose it from 0 to 1"
    } else if options.limits.allowed_resets >= REQUESTS {
        "allowed_resets is more than the three pairs of a run"
    } else {
        return Ok(());
    };
    Err(ConformanceError::Options(fault))
}

/// Whether one text of the request holds every line of the body that is not blank, in their order. A host may number or
/// indent the lines.
fn holds(request: &Request, body: &str) -> bool {
    let lines: Vec<&str> = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    // The fixture has checked that it is JSON.
    serde_json::from_slice::<Value>(request.body()).is_ok_and(|value| any_text(&value, &lines))
}

fn any_text(value: &Value, lines: &[&str]) -> bool {
    match value {
        Value::String(text) => {
            let mut rest = text.as_str();
            lines.iter().all(|line| match rest.find(line) {
                Some(at) => {
                    rest = &rest[at + line.len()..];
                    true
                }
                None => false,
            })
        }
        Value::Array(values) => values.iter().any(|value| any_text(value, lines)),
        Value::Object(members) => members.values().any(|value| any_text(value, lines)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
