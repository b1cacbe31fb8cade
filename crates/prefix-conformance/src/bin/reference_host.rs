//! A host command for `prefix-conformance run`: the reference host, with its session in the folder that it is given.
//!
//! `prefix-conformance run --api openai-chat -- prefix-conformance-reference-host [LAYOUT]`; the layout `volatile-context` is the negative control.

use std::env;
use std::error::Error;
use std::path::Path;

use prefix_conformance::reference::{Layout, ReferenceHost};
use prefix_conformance::{Host, Session, Skill};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    #[allow(
        clippy::disallowed_methods,
        reason = "a host command is told by its environment"
    )]
    let variable = |name: &str| env::var(format!("PREFIX_CONFORMANCE_{name}"));
    let layout: Layout = match env::args().nth(1) {
        Some(name) => serde_json::from_value(name.into())?,
        None => Layout::default(),
    };
    let folder = variable("SKILLS")?;
    let skill = |name: &str| -> Result<Skill, Box<dyn Error>> {
        let body = std::fs::read_to_string(Path::new(&folder).join(name).join("SKILL.md"))?;
        Ok(Skill::new(name, body))
    };
    let session = Session {
        api: variable("API")?.parse()?,
        origin: variable("ORIGIN")?,
        base_url: variable("BASE_URL")?,
        model: variable("MODEL")?,
        skills: [skill("alpha")?, skill("beta")?],
        inputs: [variable("INPUT_1")?, variable("INPUT_2")?],
    };
    let state = Path::new(&variable("SESSION")?).join("session.json");
    let mut host = match std::fs::read(&state) {
        Ok(saved) => serde_json::from_slice(&saved)?,
        Err(_) => ReferenceHost::new(layout),
    };
    match variable("TURN") {
        Ok(turn) => host.turn(&session, turn.parse()?).await?,
        // Started once for both.
        Err(_) => {
            host.turn(&session, 1).await?;
            host.turn(&session, 2).await?;
        }
    }
    std::fs::write(state, serde_json::to_vec(&host)?)?;
    std::fs::write(variable("TAIL")?, host.tail_lines())?;
    Ok(())
}
