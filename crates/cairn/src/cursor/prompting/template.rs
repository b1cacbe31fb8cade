//! The form of a turn's message: literal text with named slots, parsed once.
//!
//! Rendering passes over the template once and never over what was filled in, so text of the person that looks like
//! a placeholder stays text. Must never know: what the slots mean.

/// What fills the slots of a turn's message. An empty value takes the line that holds only its slot out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuntimeSlots<'a> {
    /// Date and time with their zone.
    pub current_time: &'a str,
    /// What the person's editor shows.
    pub editor_state: &'a str,
    /// What the person attached.
    pub attachments: &'a str,
    /// What a change of mode has to tell the model.
    pub mode_reminder: &'a str,
    /// What the person said.
    pub user_query: &'a str,
}

/// A parsed template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeTemplate {
    segments: Vec<Segment>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Literal(&'static str),
    Slot {
        slot: Slot,
        /// Text that goes out with the value only: the end of a line that holds nothing but the slot.
        line_end: &'static str,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    CurrentTime,
    EditorState,
    Attachments,
    ModeReminder,
    UserQuery,
}

impl Slot {
    const ALL: [(&'static str, Self); 5] = [
        ("current_time", Self::CurrentTime),
        ("editor_state", Self::EditorState),
        ("attachments", Self::Attachments),
        ("mode_reminder", Self::ModeReminder),
        ("user_query", Self::UserQuery),
    ];

    fn value<'a>(self, slots: &RuntimeSlots<'a>) -> &'a str {
        match self {
            Self::CurrentTime => slots.current_time,
            Self::EditorState => slots.editor_state,
            Self::Attachments => slots.attachments,
            Self::ModeReminder => slots.mode_reminder,
            Self::UserQuery => slots.user_query,
        }
    }
}

impl RuntimeTemplate {
    /// Parses a template. Each known slot stands in it exactly once: a lost slot would lose what the person said
    /// or attached. The error says what is wrong.
    pub fn parse(text: &'static str) -> Result<Self, String> {
        let mut segments = Vec::new();
        let mut found = Vec::new();
        let mut rest = text;
        let mut at_line_start = true;
        while let Some(open) = rest.find("{{") {
            let (literal, after) = rest.split_at(open);
            let (name, after) = after[2..].split_once("}}").ok_or("a placeholder is not closed")?;
            let slot = Slot::ALL.iter().find(|(known, _)| *known == name);
            let (_, slot) = slot.ok_or_else(|| format!("{{{{{name}}}}} is not a known placeholder"))?;
            if found.contains(slot) {
                return Err(format!("{{{{{name}}}}} stands in it twice"));
            }
            found.push(*slot);
            if !literal.is_empty() {
                segments.push(Segment::Literal(literal));
                at_line_start = literal.ends_with('\n');
            }
            let alone = at_line_start && after.starts_with('\n');
            let (line_end, after) = after.split_at(usize::from(alone));
            segments.push(Segment::Slot {
                slot: *slot,
                line_end,
            });
            at_line_start = alone;
            rest = after;
        }
        if !rest.is_empty() {
            segments.push(Segment::Literal(rest));
        }
        match Slot::ALL.iter().find(|(_, slot)| !found.contains(slot)) {
            Some((name, _)) => Err(format!("{{{{{name}}}}} is missing")),
            None => Ok(Self { segments }),
        }
    }

    /// Fills the slots in one pass.
    pub fn render(&self, slots: &RuntimeSlots<'_>) -> String {
        let mut out = String::new();
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => out.push_str(text),
                Segment::Slot { slot, line_end } => {
                    let value = slot.value(slots);
                    if !value.is_empty() {
                        out.push_str(value);
                        out.push_str(line_end);
                    }
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const TEMPLATE: &str = "time: {{current_time}}\n{{editor_state}}\n{{attachments}}\n{{mode_reminder}}\n<q>\n{{user_query}}\n</q>\n";

    #[test]
    fn text_that_looks_like_a_placeholder_stays_text() {
        let rendered = RuntimeTemplate::parse(TEMPLATE).unwrap().render(&RuntimeSlots {
            current_time: "{{user_query}}",
            attachments: "{{mode_reminder}} }} {{",
            user_query: "use {{attachments}} and {{unknown}}",
            ..RuntimeSlots::default()
        });
        assert_eq!(
            rendered,
            "time: {{user_query}}\n{{mode_reminder}} }} {{\n<q>\nuse {{attachments}} and {{unknown}}\n</q>\n"
        );
    }

    #[test]
    fn an_empty_slot_takes_only_its_own_line_out() {
        let rendered = RuntimeTemplate::parse(TEMPLATE)
            .unwrap()
            .render(&RuntimeSlots::default());
        assert_eq!(rendered, "time: \n<q>\n</q>\n");
    }

    #[test]
    fn a_template_names_each_known_slot_exactly_once() {
        let check = |text: &'static str, fault: &str| {
            assert_eq!(RuntimeTemplate::parse(text), Err(fault.to_owned()));
        };
        check("{{who}}", "{{who}} is not a known placeholder");
        check("{{user_query", "a placeholder is not closed");
        check(
            "{{user_query}}{{user_query}}",
            "{{user_query}} stands in it twice",
        );
        check("{{user_query}}", "{{current_time}} is missing");
    }
}
