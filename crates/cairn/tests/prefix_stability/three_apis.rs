//! A long conversation, switches of mode and refused reasoning at each of the three APIs.

use cairn::cursor::proto::agent::AgentMode;
use cairn::model::{PrefixReset, PromptChange};
use cairn::store::PrefixVerdict;

use super::rig::{Endpoint, Rig, rule, user_texts, verdicts};
use super::support::wire_bench::Database;

#[tokio::test]
async fn forty_rounds_with_changing_rules_and_restarts_only_grow() {
    for mut rig in Rig::all().await {
        for turn in 0..20 {
            if turn % 7 == 6 {
                rig = rig.restart(Database::Kept).await;
            }
            let context = rule(if turn == 9 { "RULE-B" } else { "RULE-A" });
            rig.turn(&format!("turn {turn}"), AgentMode::Agent, context).await;
        }
        rig.assert_clean();
        let calls = rig.calls().await;
        assert_eq!(calls.len(), 40);
        let mut before = 0;
        for call in &calls {
            assert_eq!((call.verdict, call.kept), (PrefixVerdict::Extends, before));
            assert!(call.items.len() > before);
            before = call.items.len();
        }
        // A rule changed and changed back: three contexts, each where it came up.
        let texts = user_texts(rig.endpoint.bodies().last().unwrap());
        let contexts: Vec<usize> = (0..texts.len())
            .filter(|at| texts[*at].contains("<request_context>"))
            .collect();
        assert_eq!(contexts, [0, 10, 12]);
        assert!(texts[10].contains("RULE-B") && texts[12] == texts[0]);
    }
}

#[tokio::test]
async fn plan_and_agent_mode_are_declared_and_said_once_each() {
    for mut rig in Rig::all().await {
        let modes = [
            AgentMode::Agent,
            AgentMode::Plan,
            AgentMode::Plan,
            AgentMode::Unspecified,
            AgentMode::Agent,
        ];
        for (turn, mode) in modes.into_iter().enumerate() {
            if turn == 2 || turn == 4 {
                rig = rig.restart(Database::Kept).await;
            }
            if turn == 1 || turn == 3 {
                rig.endpoint.allow_reset();
            }
            rig.turn(&format!("turn {turn}"), mode, rule("RULE-A")).await;
        }
        rig.assert_clean();
        let switch = PrefixVerdict::Reset(PrefixReset::Prompt(PromptChange::ModeSwitch));
        let mut expected = vec![PrefixVerdict::Extends; 10];
        expected[2] = switch;
        expected[6] = switch;
        assert_eq!(verdicts(&rig).await, expected);
        let texts = user_texts(rig.endpoint.bodies().last().unwrap());
        let said: Vec<bool> = texts.iter().map(|text| text.contains("<mode_change>")).collect();
        // The context, then the five turns.
        assert_eq!(said, [false, false, true, false, true, false]);
    }
}

#[tokio::test]
async fn reasoning_that_its_endpoint_refuses_is_a_declared_reset_and_then_still() {
    let Some(mut rig) = Rig::all().await.into_iter().nth(1) else {
        unreachable!()
    };
    rig.turn("one", AgentMode::Agent, rule("RULE-A")).await;
    let Endpoint::Responses(responses) = &rig.endpoint else {
        unreachable!()
    };
    responses.revoke_reasoning(Some("invalid_encrypted_content"), "it could not be verified");
    rig.turn("two", AgentMode::Agent, rule("RULE-A")).await;
    let mut rig = rig.restart(Database::Kept).await;
    rig.turn("three", AgentMode::Agent, rule("RULE-A")).await;
    rig.assert_clean();
    let refused = PrefixVerdict::Reset(PrefixReset::ReasoningRefused);
    let extends = PrefixVerdict::Extends;
    assert_eq!(
        verdicts(&rig).await,
        [extends, extends, extends, refused, extends, extends, extends]
    );
}
