//! Which requests belong together, where one fails to extend another, and which begin anew with a summary; the same for
//! every API. Must never know: how a request is answered, and what else its API asks of it.
//!
//! A request belongs to an earlier one if it shares an answer with it, at the same place, or in any case where an endpoint
//! has but one conversation. A request for a summary must extend its predecessor, or a part of it, and is not extended
//! itself; a request that begins with a summary which none had before begins anew.

use bytes::Bytes;
use serde_json::Value;

use super::RecordedRequest;

/// A request as it is held against others.
pub struct Sent {
    body: Bytes,
    /// Everything but the items.
    head: Value,
    /// The list that grows, without what its API does not compare.
    items: Vec<Value>,
    /// Whether nothing was left out of the items.
    is_whole: bool,
}

impl Sent {
    /// A request whose items are in this list, the last member of its body. `compared` leaves out of an item what its API
    /// does not compare.
    pub fn of(request: &RecordedRequest, list: &str, compared: impl Fn(&Value) -> Value) -> Self {
        let mut head = request.json.clone();
        let list = head.as_object_mut().and_then(|body| body.shift_remove(list));
        let sent = list
            .as_ref()
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        let items: Vec<Value> = sent.iter().map(compared).collect();
        Self {
            body: request.body.clone(),
            is_whole: items == sent,
            items,
            head,
        }
    }

    /// Whether the last item is the instruction to summarise.
    fn asks_for_summary(&self) -> bool {
        let last = self.items.last();
        last.is_some_and(|last| text_of(last).starts_with("<compaction>"))
    }

    /// The item that carries the summary of a compacted conversation.
    fn summary(&self) -> Option<&Value> {
        let carries = |item: &&Value| text_of(item).starts_with("<conversation_summary>");
        self.items.iter().find(carries)
    }

    /// Whether this is a part of the earlier request, byte for byte, with one item behind it.
    fn repeats_a_part_of(&self, known: &Self) -> bool {
        let Some(instruction) = self.items.last() else {
            return false;
        };
        let end = format!(",{instruction}]}}");
        let part = self.body.strip_suffix(end.as_bytes());
        part.is_some_and(|part| known.body.starts_with(part) && known.body.get(part.len()) == Some(&b','))
    }

    fn shares_an_answer_with(&self, known: &Self) -> bool {
        known
            .items
            .iter()
            .zip(&self.items)
            .take_while(|(a, b)| a == b)
            .any(|(item, _)| item["role"] == "assistant" || item["type"] == "function_call")
    }

    /// Where this fails to extend the earlier request; none if it does.
    fn difference_from(&self, known: &Self) -> Option<String> {
        for (index, item) in known.items.iter().enumerate() {
            match self.items.get(index) {
                None => return Some(format!("message {index} is missing")),
                Some(other) if other != item => {
                    return Some(format!("message {index} differs:\n  was {item}\n  is  {other}"));
                }
                Some(_) => {}
            }
        }
        for key in ["tools", "model"] {
            if known.head[key] != self.head[key] {
                return Some(format!("{key} differs"));
            }
        }
        if known.head != self.head {
            return Some(format!(
                "parameters differ:\n  was {}\n  is  {}",
                known.head, self.head
            ));
        }
        // Equal values with other bytes still miss every cache.
        let kept = known.body.len() - "]}".len();
        let is_comparable = known.is_whole && self.is_whole;
        (is_comparable && !self.body.starts_with(&known.body[..kept]))
            .then(|| "its bytes differ although its values do not".to_owned())
    }
}

fn text_of(item: &Value) -> &str {
    let content = &item["content"];
    content
        .as_str()
        .or_else(|| content[0]["text"].as_str())
        .unwrap_or_default()
}

/// The newest request of each conversation at an endpoint.
#[derive(Default)]
pub struct Lineages {
    newest: Vec<Sent>,
    one_conversation: bool,
    reset_allowed: bool,
    /// How many requests were judged.
    judged: usize,
    resets: Vec<usize>,
}

impl Lineages {
    /// Every request must extend an earlier one.
    pub fn of_one_conversation() -> Self {
        Self {
            one_conversation: true,
            ..Self::default()
        }
    }

    /// From now on every request must extend an earlier one.
    pub fn one_conversation(&mut self) {
        self.one_conversation = true;
    }

    /// The next request need not extend an earlier one (an edited message, other parameters).
    pub fn allow_reset(&mut self) {
        self.reset_allowed = true;
    }

    /// Zero-based numbers of the requests that began anew with a summary.
    pub fn resets(&self) -> &[usize] {
        &self.resets
    }

    /// Judges a request and remembers it: gives the body of the one that it extends, none if it begins anew or takes up a
    /// part, or says where it fails to extend what it should.
    pub fn judge(&mut self, request: Sent) -> Result<Option<Bytes>, String> {
        let number = self.judged;
        self.judged += 1;
        let reset_allowed = std::mem::take(&mut self.reset_allowed);
        let mut newest = self.newest.iter_mut().rev();
        let extended = newest.find(|known| request.difference_from(known).is_none());
        if let Some(known) = extended {
            let body = known.body.clone();
            if !request.asks_for_summary() {
                *known = request;
            }
            return Ok(Some(body));
        }
        if request.asks_for_summary() && self.newest.iter().any(|known| request.repeats_a_part_of(known)) {
            return Ok(None);
        }
        if let Some(summary) = request.summary()
            && !self.newest.iter().any(|known| known.items.contains(summary))
        {
            self.resets.push(number);
            self.newest.push(request);
            return Ok(None);
        }
        let last = self.newest.len().checked_sub(1);
        let related = self
            .newest
            .iter()
            .enumerate()
            .filter(|(index, known)| {
                self.one_conversation && Some(*index) == last || request.shares_an_answer_with(known)
            })
            .find_map(|(_, known)| request.difference_from(known));
        self.newest.push(request);
        match related {
            Some(difference) if !reset_allowed => {
                Err(format!("it does not extend the earlier request: {difference}"))
            }
            _ => Ok(None),
        }
    }
}
