//! How the agent shall work, and its form on the wire.

use super::RequestError;
use crate::cursor::proto::agent::AgentMode;

/// How the agent shall work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Carries tasks out.
    Agent,
    /// Answers questions and changes nothing.
    Ask,
    /// Researches and writes a plan.
    Plan,
    /// Finds and mends a fault.
    Debug,
    /// Works through several tasks.
    Multitask,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 5] = [Self::Agent, Self::Ask, Self::Plan, Self::Debug, Self::Multitask];

    /// The mode's name, as tools and prompts have it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Ask => "ask",
            Self::Plan => "plan",
            Self::Debug => "debug",
            Self::Multitask => "multitask",
        }
    }

    /// The mode that a wire number stands for. No mode means agent: the official client leaves it out.
    pub fn from_wire(mode: i32) -> Result<Self, RequestError> {
        match AgentMode::try_from(mode) {
            Ok(AgentMode::Unspecified | AgentMode::Agent) => Ok(Self::Agent),
            Ok(AgentMode::Ask) => Ok(Self::Ask),
            Ok(AgentMode::Plan) => Ok(Self::Plan),
            Ok(AgentMode::Debug) => Ok(Self::Debug),
            Ok(AgentMode::Multitask) => Ok(Self::Multitask),
            Ok(other @ (AgentMode::Triage | AgentMode::Project | AgentMode::Custom)) => {
                Err(RequestError::UnsupportedMode {
                    mode: other.as_str_name().to_owned(),
                })
            }
            Err(_) => Err(RequestError::UnsupportedMode {
                mode: mode.to_string(),
            }),
        }
    }

    /// The mode on the wire.
    pub fn to_wire(self) -> AgentMode {
        match self {
            Self::Agent => AgentMode::Agent,
            Self::Ask => AgentMode::Ask,
            Self::Plan => AgentMode::Plan,
            Self::Debug => AgentMode::Debug,
            Self::Multitask => AgentMode::Multitask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_survives_the_wire_and_none_means_agent() {
        for mode in Mode::ALL {
            assert_eq!(Mode::from_wire(mode.to_wire() as i32), Ok(mode));
        }
        assert_eq!(Mode::from_wire(0), Ok(Mode::Agent));
    }

    #[test]
    fn a_mode_without_a_meaning_here_is_named() {
        let check = |wire: i32, name: &str| {
            let expected = RequestError::UnsupportedMode {
                mode: name.to_owned(),
            };
            assert_eq!(Mode::from_wire(wire), Err(expected));
        };
        check(AgentMode::Triage as i32, "AGENT_MODE_TRIAGE");
        check(AgentMode::Project as i32, "AGENT_MODE_PROJECT");
        check(AgentMode::Custom as i32, "AGENT_MODE_CUSTOM");
        check(99, "99");
    }
}
