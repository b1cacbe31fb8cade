//! The figures of a run and the verdict's words, on sequences made by hand.

use super::*;
use crate::api::Api;
use crate::tail::MessageIdentity;

/// Chat requests whose messages are these texts.
fn requests(sequence: &[&[&str]]) -> Vec<Request> {
    sequence
        .iter()
        .map(|texts| {
            let messages: Vec<String> = texts
                .iter()
                .map(|text| format!(r#"{{"role":"user","content":"{text}"}}"#))
                .collect();
            let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
            Request::parse(Api::OpenAiChat, body.into_bytes()).unwrap()
        })
        .collect()
}

#[test]
fn resets_are_the_later_requests_of_the_breaking_pairs() {
    let requests = requests(&[&["a", "b"], &["a", "b", "c"], &["x"], &["x", "y"], &["z", "y"]]);
    let outcome = assess(&requests, &[], &Limits::default()).unwrap();
    assert_eq!((outcome.requests, outcome.resets.clone()), (5, vec![3, 5]));
    // 1 + 26 leading bytes of the 3 × 31 of request 2, and of the 2 × 31 of request 4.
    assert_eq!(outcome.min_continuity, 27.0 / 93.0);
    assert_eq!(outcome.cacheable_continuity, outcome.min_continuity);
    let error = verify(&outcome, &Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "request 2 → 3 kept 29.0% of the previous provider prefix (minimum 95.0%), and 2 pair(s) broke below it \
         (resets [3, 5] of 4 request pairs, allowedResets 0)"
    );
    let allowed = |allowed_resets| Limits {
        allowed_resets,
        ..Limits::default()
    };
    assert!(matches!(
        verify(&outcome, &allowed(1)),
        Err(Violation::TooManyResets { later: 3, .. })
    ));
    assert_eq!(verify(&outcome, &allowed(2)), Ok(()));
    assert!(matches!(
        verify(&outcome, &allowed(3)),
        Err(Violation::TooFewResets { .. })
    ));
}

#[test]
fn a_pair_at_the_minimum_is_no_break() {
    let requests = requests(&[&["a", "b"], &["a", "c"]]);
    // The first message and 27 bytes of the second.
    let kept = (31.0 + 27.0) / 62.0;
    for (min_continuity, resets) in [(kept, vec![]), (kept + 1e-9, vec![2])] {
        let limits = Limits {
            min_continuity,
            ..Limits::default()
        };
        assert_eq!(assess(&requests, &[], &limits).unwrap().resets, resets);
    }
}

#[test]
fn a_tail_segment_goes_by_identity_first_and_by_value_second() {
    // "tail" is said by the person in the first place, and put at the tail by the host in request 1.
    let requests = requests(&[&["tail", "a", "tail"], &["tail", "a", "b", "tail"]]);
    let value = r#"{"role":"user", "content":"tail"}"#.to_owned();
    let identities = |named: &[(usize, usize)]| -> Vec<TailSegment> {
        named
            .iter()
            .map(|(request, message)| TailSegment {
                identity: Some(MessageIdentity {
                    request: *request,
                    message: *message,
                }),
                value: None,
            })
            .collect()
    };
    let limits = Limits {
        assert_on: AssertOn::CacheablePrefix,
        ..Limits::default()
    };
    let by_identity = assess(&requests, &identities(&[(1, 2), (2, 3)]), &limits).unwrap();
    assert_eq!(by_identity.cacheable_continuity, 1.0);
    assert_eq!(by_identity.resets, Vec::<usize>::new());
    assert!(by_identity.min_continuity < 0.95);
    let cacheable = by_identity.pairs[0].cacheable.as_ref().unwrap();
    let provider = &by_identity.pairs[0].provider;
    assert_eq!(
        (
            provider.previous_bytes - cacheable.previous_bytes,
            cacheable.bytes
        ),
        (34, 34 + 31 + 31)
    );
    // By value the person's own message would go too; with an identity in both requests it must not.
    let both: Vec<TailSegment> = identities(&[(1, 2), (2, 3)])
        .into_iter()
        .map(|segment| TailSegment {
            value: Some(value.clone()),
            ..segment
        })
        .collect();
    let by_both = assess(&requests, &both[..1], &limits).unwrap();
    assert_eq!(
        by_both.pairs[0].cacheable.as_ref().unwrap().previous_bytes,
        34 + 31
    );
    let by_value = [TailSegment {
        identity: None,
        value: Some(value),
    }];
    let by_value = assess(&requests, &by_value, &limits).unwrap();
    assert_eq!(by_value.pairs[0].cacheable.as_ref().unwrap().previous_bytes, 31);
    assert_eq!(by_value.cacheable_continuity, 1.0);
}

#[test]
fn without_any_tail_segment_the_two_figures_are_one() {
    let requests = requests(&[&["a"], &["b"]]);
    let value = TailSegment {
        identity: None,
        value: Some("{\"role\":\"nobody\"}".into()),
    };
    let outcome = assess(&requests, &[value], &Limits::default()).unwrap();
    assert_eq!(outcome.cacheable_continuity, outcome.min_continuity);
    assert_eq!(outcome.pairs[0].cacheable, None);
}

#[test]
fn a_declaration_that_cannot_be_is_an_error() {
    let requests = requests(&[&["a"], &["a"]]);
    let nowhere = TailSegment {
        identity: Some(MessageIdentity {
            request: 2,
            message: 1,
        }),
        value: None,
    };
    assert_eq!(
        assess(&requests, &[nowhere], &Limits::default()),
        Err(TailError::NoSuchMessage {
            request: 2,
            message: 1
        })
    );
    let nothing = TailSegment {
        identity: None,
        value: None,
    };
    assert_eq!(
        assess(&requests, &[nothing], &Limits::default()),
        Err(TailError::Empty)
    );
    let lines = "{\"request\":1,\"message\":2}\n\n{\"value\":{\"a\":1.0}}\n";
    let parsed = TailSegment::parse_lines(lines).unwrap();
    assert_eq!(parsed.len(), 2);
    assert_eq!(parsed[1].value.as_deref(), Some("{\"a\":1.0}"));
    for (line, number) in [("{\"request\":1}", 1), ("\n{\"what\":1}", 2), ("x", 1)] {
        assert!(
            matches!(TailSegment::parse_lines(line), Err(TailError::Unreadable { line, .. }) if line == number)
        );
    }
}
