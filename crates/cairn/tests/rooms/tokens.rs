//! Rust source as tokens: comments are gone, macros and attributes are not, and each token knows its line.
//!
//! Tokens and not a syntax tree, because the rules are about names and paths wherever they stand, and a syntax tree
//! does not look into macros.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token; groups hold their own.
#[derive(Debug)]
pub enum Token {
    /// A name or keyword.
    Ident(String, usize),
    /// `::`.
    Separator,
    /// Any other single sign.
    Sign(char),
    /// A literal as written.
    Literal(String, usize),
    /// What stands in brackets.
    Group(Delimiter, Vec<Token>),
}

/// Reads a whole file. The error is the reader's own, for the person who runs the test.
pub fn read(source: &str) -> Result<Vec<Token>, String> {
    let stream: TokenStream = source.parse().map_err(|error| format!("{error}"))?;
    Ok(simplify(stream))
}

fn simplify(stream: TokenStream) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::new();
    for tree in stream {
        match tree {
            TokenTree::Ident(ident) => {
                let line = ident.span().start().line;
                out.push(Token::Ident(ident.to_string(), line));
            }
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                out.push(Token::Literal(literal.to_string(), line));
            }
            TokenTree::Punct(sign) => match (sign.as_char(), out.last()) {
                (':', Some(Token::Sign(':'))) => {
                    out.pop();
                    out.push(Token::Separator);
                }
                (sign, _) => out.push(Token::Sign(sign)),
            },
            TokenTree::Group(group) => {
                let inner = simplify(group.stream());
                if group.delimiter() == Delimiter::Bracket && is_doc(&inner) && ends_attribute(&out) {
                    while matches!(out.last(), Some(Token::Sign('#' | '!'))) {
                        out.pop();
                    }
                } else {
                    out.push(Token::Group(group.delimiter(), inner));
                }
            }
        }
    }
    out
}

fn is_doc(tokens: &[Token]) -> bool {
    matches!(
        tokens,
        [Token::Ident(name, _), Token::Sign('='), Token::Literal(..)] if name == "doc"
    )
}

fn ends_attribute(before: &[Token]) -> bool {
    matches!(before.last(), Some(Token::Sign('#' | '!')))
}

/// A path of names as the file says it, with `use` groups spread out: `a::{b, c::d}` gives `a::b` and `a::c::d`.
#[derive(Debug, PartialEq, Eq)]
pub struct Path {
    pub names: Vec<String>,
    pub line: usize,
    /// The inline modules around it, from the outside.
    pub inside: Vec<String>,
}

/// All paths of a file, single names included.
pub fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut out = Vec::new();
    collect(tokens, &[], &mut out);
    out
}

fn collect(tokens: &[Token], inside: &[String], out: &mut Vec<Path>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            Token::Ident(word, _) if word == "mod" => match &tokens[at + 1..] {
                [Token::Ident(name, _), Token::Group(Delimiter::Brace, body), ..] => {
                    let mut deeper = inside.to_vec();
                    deeper.push(name.clone());
                    collect(body, &deeper, out);
                    at += 3;
                }
                _ => at += 1,
            },
            Token::Ident(..) => at = path(tokens, at, Vec::new(), inside, out),
            Token::Group(_, body) => {
                collect(body, inside, out);
                at += 1;
            }
            Token::Separator | Token::Sign(_) | Token::Literal(..) => at += 1,
        }
    }
}

/// Reads the path that starts at `at`, after `prefix`; returns where it ends.
fn path(
    tokens: &[Token],
    mut at: usize,
    prefix: Vec<String>,
    inside: &[String],
    out: &mut Vec<Path>,
) -> usize {
    let mut names = prefix;
    let mut first_line = 0;
    while let Some(Token::Ident(name, line)) = tokens.get(at) {
        names.push(name.clone());
        first_line = if first_line == 0 { *line } else { first_line };
        if !matches!(tokens.get(at + 1), Some(Token::Separator)) {
            at += 1;
            break;
        }
        match tokens.get(at + 2) {
            Some(Token::Ident(..)) => at += 2,
            Some(Token::Sign('*')) => {
                names.push("*".to_owned());
                at += 3;
                break;
            }
            Some(Token::Group(Delimiter::Brace, list)) => {
                let mut item = 0;
                while item < list.len() {
                    match &list[item] {
                        Token::Ident(..) => item = path(list, item, names.clone(), inside, out),
                        Token::Sign('*') => {
                            let mut all = names.clone();
                            all.push("*".to_owned());
                            out.push(Path {
                                names: all,
                                line: first_line,
                                inside: inside.to_vec(),
                            });
                            item += 1;
                        }
                        _ => item += 1,
                    }
                }
                return at + 3;
            }
            _ => {
                at += 2;
                break;
            }
        }
    }
    out.push(Path {
        names,
        line: first_line,
        inside: inside.to_vec(),
    });
    at
}

/// A name or literal with its line.
pub fn texts(tokens: &[Token]) -> Vec<(&str, usize, bool)> {
    let mut out = Vec::new();
    for token in tokens {
        match token {
            Token::Ident(text, line) => out.push((text.as_str(), *line, false)),
            Token::Literal(text, line) => out.push((text.as_str(), *line, true)),
            Token::Group(_, body) => out.extend(texts(body)),
            Token::Separator | Token::Sign(_) => {}
        }
    }
    out
}

/// What stands between the quotes of a string literal, escapes left as they are; `None` for other literals.
pub fn string(literal: &str) -> Option<&str> {
    let start = literal.find('"')?;
    let end = literal.rfind('"')?;
    let head = &literal[..start];
    (start < end && head.chars().all(|c| matches!(c, 'r' | 'b' | 'c' | '#')))
        .then(|| &literal[start + 1..end])
}

/// The words of a name or text in lower case: `SetBlobArgs` and `set_blob_args` both give set, blob, args.
pub fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    let mut escaped = false;
    for c in text.chars() {
        let starts = c.is_uppercase() && before.is_lowercase();
        if (starts || !c.is_alphanumeric() || escaped) && !word.is_empty() {
            out.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() && !escaped {
            word.extend(c.to_lowercase());
        }
        escaped = c == '\\' && !escaped;
        before = c;
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}
