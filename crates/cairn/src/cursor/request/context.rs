//! What holds for the conversation, as one stable text: environment, repositories, rules, skills, subagents and MCP
//! servers.
//!
//! Equal facts give equal bytes in whatever order they arrive. Nothing that changes from turn to turn enters here,
//! because a changed text is appended to the history as a new message: so no clock, no open files, and of Git only
//! path, branch and remote. Git's status changes with every edit, and the model can ask for it.
//! Must never know: what was compiled before, or the turn's message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use url::Url;

use super::mcp::mcp_descriptors;
use super::text::{Tagged, one_line};
use crate::cursor::proto::agent::cursor_rule_type::Type;
use crate::cursor::proto::agent::{
    AgentSkill, CursorRule, CustomSubagent, GitRepoInfo, RequestContext, RequestContextEnv, SkillOptions,
};

/// Compiles the context that holds for the conversation; `None` if it says nothing.
pub fn compile_request_context(context: &RequestContext) -> Option<String> {
    let skills = skills(&context.agent_skills, context.skill_options.as_ref());
    let rules = || context.rules.iter().chain(&context.non_file_rules);
    let mut sections = Tagged::default();
    let environment = context.env.as_ref().map(environment).unwrap_or_default();
    sections.section("environment", "", &environment);
    sections.section("git_repositories", "", &repositories(&context.git_repos));
    sections.section(
        "rules",
        "These rules of the person and the project always apply.",
        &always_applied(rules()),
    );
    sections.section(
        "rules_to_read",
        "Read the file of a rule when your work touches what it is for, then follow it.",
        &to_read(rules(), &skills),
    );
    sections.section(
        "skills",
        "Read the file of a skill when a task fits its description, then work as it says.",
        &skill_list(&skills),
    );
    sections.section(
        "subagents",
        "Subagents that the workspace or the person defines.",
        &subagents(&context.custom_subagents),
    );
    sections.section(
        "mcp_servers",
        "Servers that the person connected, with what each says about its use.",
        &mcp_servers(context),
    );
    let sections = sections.finish();
    if sections.is_empty() {
        return None;
    }
    let mut message = Tagged::default();
    message.section(
        "request_context",
        "The workspace as the client describes it. This holds until a later request_context replaces it.",
        &sections,
    );
    Some(message.finish())
}

fn environment(env: &RequestContextEnv) -> String {
    let mut out = Tagged::default();
    let mut fact = |name: &str, value: &str| {
        if !value.is_empty() {
            out.line(&format!("{name}: {}", one_line(value)));
        }
    };
    fact("operating system", &env.os_version);
    fact("shell", &env.shell);
    fact("time zone", &env.time_zone);
    // The order of the folders says which one is the first; only repeats are dropped.
    let mut seen = BTreeSet::new();
    for path in env
        .workspace_paths
        .iter()
        .filter(|path| seen.insert(path.as_str()))
    {
        fact("workspace folder", path);
    }
    fact(
        "folder with the output of background commands",
        &env.terminals_folder,
    );
    if env.sandbox_enabled {
        fact("commands run", "in a sandbox");
    }
    out.finish()
}

fn repositories(repositories: &[GitRepoInfo]) -> String {
    let lines: BTreeSet<String> = repositories
        .iter()
        .map(|repository| {
            let mut line = format!("- {}", one_line(&repository.path));
            if !repository.branch_name.is_empty() {
                let _ = write!(line, ", branch {}", one_line(&repository.branch_name));
            }
            if let Some(remote) = repository.remote_url.as_deref().and_then(without_credentials) {
                let _ = write!(line, ", remote {}", one_line(&remote));
            }
            line
        })
        .collect();
    join(lines)
}

/// A remote without the user name and password that may stand in it; nothing where that cannot be made sure.
fn without_credentials(remote: &str) -> Option<String> {
    if remote.is_empty() {
        return None;
    }
    if !remote.contains("://") {
        // `host:path` or a path: such an address has no place for a password.
        return Some(remote.to_owned());
    }
    let mut url = Url::parse(remote).ok()?;
    if url.username().is_empty() && url.password().is_none() {
        return Some(remote.to_owned());
    }
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url.into())
}

fn rule_type(rule: &CursorRule) -> Option<&Type> {
    rule.r#type.as_ref().and_then(|kind| kind.r#type.as_ref())
}

fn is_readable(parse_error: Option<&str>) -> bool {
    parse_error.unwrap_or_default().is_empty()
}

fn always_applied<'a>(rules: impl Iterator<Item = &'a CursorRule>) -> String {
    let rules: BTreeSet<(&str, &str)> = rules
        .filter(|rule| matches!(rule_type(rule), Some(Type::Global(_))))
        .filter(|rule| is_readable(rule.parse_error.as_deref()) && !rule.content.trim().is_empty())
        .map(|rule| (rule.full_path.as_str(), rule.content.as_str()))
        .collect();
    let mut out = Tagged::default();
    for (path, content) in rules {
        out.element("rule", &[("path", path)], content);
    }
    out.finish()
}

/// Rules that the model reads when they matter. Rules that the person attaches by hand are not among them: they come
/// with the message that they are attached to. The client lists skills as rules too; those stand with the skills.
fn to_read<'a>(rules: impl Iterator<Item = &'a CursorRule>, skills: &BTreeMap<&str, Skill<'_>>) -> String {
    let lines: BTreeSet<String> = rules
        .filter(|rule| is_readable(rule.parse_error.as_deref()) && !rule.full_path.is_empty())
        .filter(|rule| !skills.contains_key(rule.full_path.as_str()))
        .filter_map(|rule| {
            let purpose = match rule_type(rule)? {
                Type::FileGlobbed(files) => {
                    let globs: BTreeSet<&str> = files.globs.iter().map(String::as_str).collect();
                    format!(
                        "for files that match {}",
                        globs.into_iter().collect::<Vec<_>>().join(", ")
                    )
                }
                Type::AgentFetched(rule) => rule.description.clone(),
                Type::Global(_) | Type::ManuallyAttached(_) => return None,
            };
            Some(entry(&rule.full_path, &purpose))
        })
        .collect();
    join(lines)
}

/// What is told of a skill.
#[derive(Clone, Copy)]
struct Skill<'a> {
    description: &'a str,
    /// Whether the model may decide to use it.
    offered: bool,
}

/// All skills by the path of their file, those that only the person may call included.
fn skills<'a>(skills: &'a [AgentSkill], options: Option<&'a SkillOptions>) -> BTreeMap<&'a str, Skill<'a>> {
    let mut found: BTreeMap<&str, Skill<'_>> = BTreeMap::new();
    let described = options.iter().flat_map(|options| &options.skill_descriptors);
    let all = described
        .map(|skill| {
            let offered = skill.enabled && is_readable(skill.parse_error.as_deref());
            (
                skill.readme_file_path.as_str(),
                skill.description.as_str(),
                offered,
            )
        })
        .chain(skills.iter().map(|skill| {
            let offered = !skill.disable_model_invocation && is_readable(skill.parse_error.as_deref());
            (skill.full_path.as_str(), skill.description.as_str(), offered)
        }));
    for (path, description, offered) in all.filter(|(path, ..)| !path.is_empty()) {
        let skill = found.entry(path).or_insert(Skill { description, offered });
        // Two entries for one file: whatever their order, a prohibition and the greater text hold.
        skill.offered &= offered;
        skill.description = skill.description.max(description);
    }
    found
}

fn skill_list(skills: &BTreeMap<&str, Skill<'_>>) -> String {
    let offered = skills.iter().filter(|(_, skill)| skill.offered);
    join(offered.map(|(path, skill)| entry(path, skill.description)))
}

fn subagents(subagents: &[CustomSubagent]) -> String {
    let lines: BTreeSet<String> = subagents
        .iter()
        .map(|subagent| entry(&subagent.name, &subagent.description))
        .collect();
    join(lines)
}

fn mcp_servers(context: &RequestContext) -> String {
    // A server without an identifier of its own is known by its name.
    let identify =
        |identifier: &str, name: &str| if identifier.is_empty() { name } else { identifier }.to_owned();
    let described = mcp_descriptors(context).map(|server| {
        (
            identify(&server.server_identifier, &server.server_name),
            server.server_use_instructions.as_deref().unwrap_or_default(),
        )
    });
    let instructed = context.mcp_instructions.iter().map(|server| {
        (
            identify(&server.server_identifier, &server.server_name),
            server.instructions.as_str(),
        )
    });
    let servers: BTreeSet<(String, &str)> = described.chain(instructed).collect();
    let mut out = Tagged::default();
    for (name, instructions) in &servers {
        // A server that says nothing is named once, and not at all beside its own words.
        let silent = instructions.trim().is_empty();
        let speaks = |(other, words): &(String, &str)| other == name && !words.trim().is_empty();
        if !(silent && servers.iter().any(speaks)) {
            out.element("mcp_server", &[("name", name)], instructions.trim());
        }
    }
    out.finish()
}

fn entry(name: &str, purpose: &str) -> String {
    let (name, purpose) = (one_line(name), one_line(purpose));
    if purpose.is_empty() {
        format!("- {name}")
    } else {
        format!("- {name}: {purpose}")
    }
}

fn join(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::cursor::proto::agent::{
        CursorRuleType, CursorRuleTypeAgentFetched, CursorRuleTypeFileGlobs, CursorRuleTypeGlobal,
        CursorRuleTypeManuallyAttached, McpDescriptor, McpFileSystemOptions, McpInstructions,
        SkillDescriptor,
    };

    fn rule(path: &str, content: &str, kind: Type) -> CursorRule {
        CursorRule {
            full_path: path.to_owned(),
            content: content.to_owned(),
            r#type: Some(CursorRuleType { r#type: Some(kind) }),
            ..CursorRule::default()
        }
    }

    fn fetched(description: &str) -> Type {
        Type::AgentFetched(CursorRuleTypeAgentFetched {
            description: description.to_owned(),
        })
    }

    fn skill(path: &str, description: &str) -> AgentSkill {
        AgentSkill {
            full_path: path.to_owned(),
            description: description.to_owned(),
            ..AgentSkill::default()
        }
    }

    fn whole() -> RequestContext {
        let globs = vec!["*.sql".to_owned(), "*.psql".to_owned()];
        RequestContext {
            env: Some(RequestContextEnv {
                os_version: "linux 6.1".to_owned(),
                shell: "bash".to_owned(),
                time_zone: "Europe/Berlin".to_owned(),
                workspace_paths: vec!["/w/b".to_owned(), "/w/a".to_owned(), "/w/b".to_owned()],
                terminals_folder: "/t".to_owned(),
                sandbox_enabled: true,
                ..RequestContextEnv::default()
            }),
            git_repos: vec![
                GitRepoInfo {
                    path: "/w/b".to_owned(),
                    branch_name: "main".to_owned(),
                    status: "## main\n M x\n".to_owned(),
                    remote_url: Some("https://me:s3cret@host.test/r.git".to_owned()),
                    ..GitRepoInfo::default()
                },
                GitRepoInfo {
                    path: "/w/a".to_owned(),
                    remote_url: Some("git@host.test:r.git".to_owned()),
                    ..GitRepoInfo::default()
                },
            ],
            rules: vec![
                rule("/w/deploy.mdc", "Ask.", fetched("when\ndeploying")),
                rule("/w/style.mdc", "Use tabs.", Type::Global(CursorRuleTypeGlobal {})),
                rule(
                    "/w/sql.mdc",
                    "Upper.",
                    Type::FileGlobbed(CursorRuleTypeFileGlobs { globs }),
                ),
                rule(
                    "/w/hand.mdc",
                    "By hand.",
                    Type::ManuallyAttached(CursorRuleTypeManuallyAttached {}),
                ),
                rule("/w/s/SKILL.md", "Do it.", fetched("a skill")),
                CursorRule {
                    parse_error: Some("bad".to_owned()),
                    ..rule("/w/bad.mdc", "Broken.", Type::Global(CursorRuleTypeGlobal {}))
                },
            ],
            non_file_rules: vec![rule("", "Be kind.\n", Type::Global(CursorRuleTypeGlobal {}))],
            agent_skills: vec![
                skill("/w/s/SKILL.md", "a skill"),
                AgentSkill {
                    disable_model_invocation: true,
                    ..skill("/w/private/SKILL.md", "only for the person")
                },
            ],
            skill_options: Some(SkillOptions {
                skill_descriptors: vec![SkillDescriptor {
                    name: "old".to_owned(),
                    description: "an older skill".to_owned(),
                    readme_file_path: "/w/o/SKILL.md".to_owned(),
                    enabled: true,
                    ..SkillDescriptor::default()
                }],
            }),
            custom_subagents: vec![CustomSubagent {
                name: "checker".to_owned(),
                description: "checks".to_owned(),
                ..CustomSubagent::default()
            }],
            mcp_instructions: vec![
                McpInstructions {
                    server_name: "my.server".to_owned(),
                    instructions: "Say hi.".to_owned(),
                    ..McpInstructions::default()
                },
                McpInstructions {
                    server_name: "Files".to_owned(),
                    server_identifier: "files".to_owned(),
                    ..McpInstructions::default()
                },
            ],
            mcp_file_system_options: Some(McpFileSystemOptions {
                mcp_descriptors: vec![McpDescriptor {
                    server_name: "my.server".to_owned(),
                    server_identifier: "my.server".to_owned(),
                    ..McpDescriptor::default()
                }],
                ..McpFileSystemOptions::default()
            }),
            ..RequestContext::default()
        }
    }

    const WHOLE: &str = r#"<request_context>
The workspace as the client describes it. This holds until a later request_context replaces it.
<environment>
operating system: linux 6.1
shell: bash
time zone: Europe/Berlin
workspace folder: /w/b
workspace folder: /w/a
folder with the output of background commands: /t
commands run: in a sandbox
</environment>
<git_repositories>
- /w/a, remote git@host.test:r.git
- /w/b, branch main, remote https://host.test/r.git
</git_repositories>
<rules>
These rules of the person and the project always apply.
<rule>
Be kind.
</rule>
<rule path="/w/style.mdc">
Use tabs.
</rule>
</rules>
<rules_to_read>
Read the file of a rule when your work touches what it is for, then follow it.
- /w/deploy.mdc: when deploying
- /w/sql.mdc: for files that match *.psql, *.sql
</rules_to_read>
<skills>
Read the file of a skill when a task fits its description, then work as it says.
- /w/o/SKILL.md: an older skill
- /w/s/SKILL.md: a skill
</skills>
<subagents>
Subagents that the workspace or the person defines.
- checker: checks
</subagents>
<mcp_servers>
Servers that the person connected, with what each says about its use.
<mcp_server name="files" />
<mcp_server name="my.server">
Say hi.
</mcp_server>
</mcp_servers>
</request_context>"#;

    #[test]
    fn a_whole_context_has_one_form() {
        assert_eq!(compile_request_context(&whole()).unwrap(), WHOLE);
    }

    #[test]
    fn the_order_and_repeats_of_facts_do_not_matter() {
        let mut shuffled = whole();
        shuffled.git_repos.reverse();
        shuffled.rules.reverse();
        shuffled.rules.extend(whole().rules);
        shuffled.agent_skills.reverse();
        shuffled.custom_subagents.extend(whole().custom_subagents);
        shuffled.mcp_instructions.reverse();
        if let Some(Type::FileGlobbed(files)) = shuffled.rules[3]
            .r#type
            .as_mut()
            .and_then(|kind| kind.r#type.as_mut())
        {
            files.globs.reverse();
        }
        assert_ne!(shuffled, whole());
        assert_eq!(compile_request_context(&shuffled).unwrap(), WHOLE);
    }

    #[test]
    fn what_changes_with_every_turn_changes_nothing() {
        let mut later = whole();
        later.git_repos[0].status = "## main\n M x\n M y\n?? z\n".to_owned();
        later.user_intent_summary = Some("now something else".to_owned());
        later.conversation_notes_listing = Some("a note".to_owned());
        later.file_contents.insert("/w/a/x".to_owned(), "new".to_owned());
        assert_eq!(compile_request_context(&later).unwrap(), WHOLE);
    }

    #[test]
    fn a_changed_fact_changes_the_text() {
        let changes: [fn(&mut RequestContext); 4] = [
            |context| context.git_repos[0].branch_name = "topic".to_owned(),
            |context| context.rules[1].content = "Use blanks.".to_owned(),
            |context| context.agent_skills[0].description = "another".to_owned(),
            |context| context.mcp_instructions[0].instructions = "Say bye.".to_owned(),
        ];
        for change in changes {
            let mut context = whole();
            change(&mut context);
            assert_ne!(compile_request_context(&context).unwrap(), WHOLE);
        }
    }

    #[test]
    fn a_context_that_says_nothing_is_no_message() {
        assert_eq!(compile_request_context(&RequestContext::default()), None);
        let volatile = RequestContext {
            conversation_notes_listing: Some("a note".to_owned()),
            web_search_enabled: Some(true),
            ..RequestContext::default()
        };
        assert_eq!(compile_request_context(&volatile), None);
    }
}
